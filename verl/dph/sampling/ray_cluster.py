"""Joining a Ray that runs already (RAY_ADDRESS), such as that of several nodes (scripts/lib/cluster.sh)."""

import os

from omegaconf import DictConfig, OmegaConf, open_dict
from verl.utils.device import get_resource_name

# Set by the launcher of several nodes: the head's address.
_HEAD = "DPH_HEAD"
# What a node's Ray has from its own start. ray.init refuses them where it joins.
_OF_A_NODE = ("num_cpus", "num_gpus")
# Every node has 1 of a resource of its own name.
_A_LITTLE = 0.001
# The driver's, which processes on other nodes must have alike. There they would inherit those of their node's Ray.
_OF_THE_RUN = ("DPH_SCORER", "VERL_FILE_LOGGER_PATH")


def join_running(config: DictConfig) -> None:
    """Where RAY_ADDRESS is set, let ray.init join that Ray, and all of this run's processes find what they need.

    Args:
        config: verl's trainer settings; ray_kwargs.ray_init and transfer_queue are changed.
    """
    if not os.environ.get("RAY_ADDRESS"):
        return
    with open_dict(config):
        settings = config.ray_kwargs.ray_init
        for name in _OF_A_NODE:
            settings[name] = None
        settings.runtime_env = settings.get("runtime_env") or {}
        ours = {name: os.environ[name] for name in _OF_THE_RUN if name in os.environ}
        # Those that the user has set count more.
        settings.runtime_env.env_vars = ours | dict(settings.runtime_env.get("env_vars") or {})
        storage = OmegaConf.select(config, "transfer_queue.backend.SimpleStorage")
        if storage is not None and storage.get("required_node_resource") is None:
            # Nodes that only score have no GPU, and may be lost: none of a step's rows may lie there.
            storage.required_node_resource = get_resource_name()


def on_head() -> dict[str, float]:
    """Ray's resources that bind a process to the head of several nodes, whose user looks there for what it writes."""
    head = os.environ.get(_HEAD)
    return {f"node:{head}": _A_LITTLE} if head else {}
