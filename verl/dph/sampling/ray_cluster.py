"""Join the running Ray of RAY_ADDRESS, such as a cluster of several nodes (rl/cluster)."""

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import ray
from omegaconf import DictConfig, OmegaConf, open_dict
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from verl.utils.device import get_resource_name

from rl.common.errors import UserError
from rl.configuration.names import joins_ray

# Variable that rl.cluster sets to the head's address.
_HEAD = "DPH_HEAD"
# Resources that each node's own `ray start` defines: ray.init rejects them when it joins.
_RESOURCES_OF_A_NODE = ("num_cpus", "num_gpus")
# How much to ask of the resource that Ray names after a node; the node has 1 of it.
_A_LITTLE = 0.001
# A network's file system may show a new file late, and a node's first worker takes seconds to start.
SEEN_WITHIN_S, ANSWERS_WITHIN_S = 10.0, 120.0
# How the variables of the services begin that training logs to.
_OF_SERVICES = ("SWANLAB_", "WANDB_")
# Variables of the driver for processes on other nodes, which inherit the environment of their node's Ray.
_ENVIRONMENT_OF_THE_RUN = ("DPH_SCORER", "VERL_FILE_LOGGER_PATH", "VERL_PLATFORM")


def join_running(config: DictConfig) -> None:
    """If RAY_ADDRESS is set, let ray.init join that Ray, and pass this run's environment to all of its processes.

    Args:
        config: verl's trainer settings; ray_kwargs.ray_init and transfer_queue are changed.
    """
    if not joins_ray():
        return
    with open_dict(config):
        settings = config.ray_kwargs.ray_init
        for name in _RESOURCES_OF_A_NODE:
            settings[name] = None
        settings.runtime_env = settings.get("runtime_env") or {}
        ours = {name: os.environ[name] for name in _ENVIRONMENT_OF_THE_RUN if name in os.environ}
        # The user's variables override ours.
        settings.runtime_env.env_vars = ours | dict(settings.runtime_env.get("env_vars") or {})
        storage = OmegaConf.select(config, "transfer_queue.backend.SimpleStorage")
        if storage is not None and storage.get("required_node_resource") is None:
            # Nodes without a GPU only score and may be lost, so they store no rows.
            storage.required_node_resource = get_resource_name()


def on_head() -> dict[str, float]:
    """Ray resources that place a process on the head node, where the user looks for its files."""
    head = os.environ.get(_HEAD)
    return {f"node:{head}": _A_LITTLE} if head else {}


def check_shared_folder(folder: Path, training_nodes: int) -> None:
    """Reject a folder that not all nodes that train share: each rank writes its part of a checkpoint there.

    A Ray of more nodes is not checked, because it may train on any of them.
    """
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get(get_resource_name())]
    if not 2 <= len(nodes) <= training_nodes:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".shared-") as file:
        absent = without(file.name, nodes)
    if absent:
        raise UserError(
            f"trainer.default_local_dir={folder} is another folder at {', '.join(absent)}, and no checkpoint would be "
            "whole: name a folder of a file system that all nodes share (OUTPUT_DIR in the scripts), or save none "
            "(trainer.save_freq=-1)."
        )


def without(file: str, nodes: Sequence[dict]) -> list[str]:
    """The addresses of those nodes of ray.nodes() that do not see a file."""
    look = ray.remote(num_cpus=0)(os.path.exists)
    deadline = time.monotonic() + SEEN_WITHIN_S
    while True:
        there = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
        asked = [look.options(scheduling_strategy=strategy).remote(file) for strategy in there]
        seen = ray.get(asked, timeout=ANSWERS_WITHIN_S)
        nodes = [node for node, sees in zip(nodes, seen, strict=True) if not sees]
        if not nodes or time.monotonic() > deadline:
            return [node["NodeManagerAddress"] for node in nodes]
        time.sleep(0.5)


def services_variables() -> dict[str, str]:
    """The variables of the services that training logs to, which a Ray that somebody else started lacks.

    They hold keys. So they are neither among the settings, which manifest.json and the services get, nor in a
    runtime_env, which Ray shows.
    """
    return {name: value for name, value in os.environ.items() if joins_ray() and name.startswith(_OF_SERVICES)}
