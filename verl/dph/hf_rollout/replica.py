"""The rollout replica "hf": starts one `HFServer` per rank."""

from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from verl.plugin.platform import get_platform
from verl.utils.device import get_resource_name, get_visible_devices_keyword
from verl.workers.rollout.replica import RolloutMode, RolloutReplica

from verl.dph.hf_rollout.server import HFServer


def server_name(replica_rank: int, suffix: str = "") -> str:
    """The name of a server's Ray actor."""
    return f"hf_server_{replica_rank}{suffix}"


class HFReplica(RolloutReplica):
    """A replica is one server process."""

    async def init_standalone(self) -> None:
        """Start a server that reads its weights from the model's path, on a separate device and without a worker."""
        self.rollout_mode = RolloutMode.STANDALONE
        await self.launch_servers()

    async def launch_servers(self) -> None:
        """Start the server.

        Raises:
            ValueError: when the settings ask for a replica of several ranks.
        """
        if self.world_size != 1:
            raise ValueError(
                f"rollout.name=hf has one rank per replica, but tensor_model_parallel_size x data_parallel_size x "
                f"pipeline_model_parallel_size is {self.world_size}: set all three to 1"
            )
        server = (
            ray.remote(HFServer)
            .options(
                name=server_name(self.replica_rank, self.name_suffix),
                max_concurrency=self.max_concurrency,
                num_cpus=0,
                **await self._placement(),
            )
            .remote(
                config=self.config,
                model_config=self.model_config,
                rollout_mode=self.rollout_mode,
                replica_rank=self.replica_rank,
            )
        )
        await server.launch_server.remote()
        self.servers = [server]
        self._server_handle = server
        self._server_address = await server.get_server_address.remote()

    async def _placement(self) -> dict[str, Any]:
        """Ray's options for a separate device, or for the device of the replica's worker if it has one.

        Ray counts the worker's device as taken, so an environment variable shows it to the server, as for verl's vLLM.
        """
        if not self.workers:
            return {"num_gpus": 1}
        node, device = await self.workers[0].__ray_call__.remote(_node_and_device)
        shown = {get_visible_devices_keyword(): device} | dict.fromkeys(get_platform().ray_noset_envvars(), "1")
        affinity = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        return {"scheduling_strategy": affinity, "runtime_env": {"env_vars": shown}}


def _node_and_device(worker: Any) -> tuple[str, str]:
    """The node of the Ray actor that runs this, and its device as the environment names it."""
    context = ray.get_runtime_context()
    return context.get_node_id(), context.get_accelerator_ids()[get_resource_name()][0]
