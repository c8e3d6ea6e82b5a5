"""The platform "cpu" of verl (verl/plugin/platform), chosen by VERL_PLATFORM=cpu, and its process groups."""

import functools
import os
import random
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import verl.utils.distributed as verl_distributed
from verl.plugin.platform import PlatformBase, PlatformRegistry

from verl.dph.cpu import device, is_chosen

LOCAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


@PlatformRegistry.register(platform="cpu")
class CPUPlatform(PlatformBase):
    """One process is one device.

    Ray gets as many fake "GPU"s as there are ranks (`+ray_kwargs.ray_init.num_gpus=N`), because verl schedules by them
    (verl/single_controller/ray/base.py).
    """

    device_name = "cpu"
    vendor_name = "cpu"
    device_module: ModuleType = device

    def is_available(self) -> bool:
        return is_chosen()

    def current_device(self) -> str:
        # verl passes this to tensor.to(), where an index would mean an accelerator.
        return "cpu"

    def device_count(self) -> int:
        return 1

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def nothing(self, *args: Any, **kwargs: Any) -> None:
        """One device that computes synchronously, without a caching allocator or a profiler."""

    set_device = synchronize = set_allocator_settings = empty_cache = nothing
    profiler_start = profiler_stop = cudart = nothing

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    def nvtx_range(self, msg: str):
        return nullcontext()

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False

    def rollout_env_vars(self) -> dict[str, str]:
        # Left to itself, vLLM binds its threads to all cores, which the training workers need as well.
        return {"VLLM_CPU_OMP_THREADS_BIND": os.environ.get("VLLM_CPU_OMP_THREADS_BIND", "nobind")}


def use_gloo() -> None:
    """Make `initialize_global_process_group_ray` default to gloo. Call it before modules import it by name.

    verl 0.9.1 joins "cpu:gloo" and "<device>:<backend>" (verl/utils/distributed.py:89). Here both halves name the CPU,
    which torch rejects.
    """
    initialize = verl_distributed.initialize_global_process_group_ray

    @functools.wraps(initialize)
    def initialize_with_gloo(timeout_second: int | None = None, backend: str | None = None) -> None:
        initialize(timeout_second, backend or "cpu:gloo")

    verl_distributed.initialize_global_process_group_ray = initialize_with_gloo


def use_unshared_ports(worker_groups: Any) -> None:
    """Have the ranks of a worker group meet at a port that the kernel gives to no connection.

    verl 0.9.1 asks the kernel for a free port, unless it has a range of them (single_controller/ray/base.py:
    get_master_addr_port), and rank 0 listens there seconds later. On a CPU several programs run at a time, with many
    connections each, and one of these may have the port by then.

    Args:
        worker_groups: verl.single_controller.ray.base.
    """
    initialize = worker_groups.RayWorkerGroup.__init__

    @functools.wraps(initialize)
    def initialize_with_range(self: Any, *args: Any, **kwargs: Any) -> None:
        initialize(self, *args, **{"master_port_range": unshared_ports(), **kwargs})

    worker_groups.RayWorkerGroup.__init__ = initialize_with_range


def unshared_ports() -> list[int]:
    """The first and the last of a range of ports below those of connections; verl takes the first free one.

    It begins at random, also in programs with the same seed, so that two of them do not take the same port.
    """
    last = max(int(LOCAL_PORTS.read_text().split()[0]), 20_000)
    return [random.SystemRandom().randrange(10_000, last - 100), last]
