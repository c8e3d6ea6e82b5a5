"""The platform "cpu" of verl (verl/plugin/platform), chosen by VERL_PLATFORM=cpu."""

import os
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

from verl.dph.cpu import device


class CPUPlatform(PlatformBase):
    """One process is one device. Ray gets as many fake "GPU"s as there are ranks, because verl schedules by them
    (verl/single_controller/ray/base.py): `+ray_kwargs.ray_init.num_gpus=N`."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module: ModuleType = device

    def is_available(self) -> bool:
        return os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu"

    def current_device(self) -> str:
        # verl passes this to tensor.to(), where a bare index would mean an accelerator
        return "cpu"

    def device_count(self) -> int:
        return device.device_count()

    def set_device(self, device_index: int) -> None:
        device.set_device(device_index)

    def synchronize(self, device_index: int | None = None) -> None:
        device.synchronize()

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def nothing(self, *args: Any, **kwargs: Any) -> None:
        """There is no caching allocator and no device profiler."""

    set_allocator_settings = empty_cache = profiler_start = profiler_stop = nothing

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str):
        yield

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False

    def rollout_env_vars(self) -> dict[str, str]:
        # Left to itself, vLLM binds its threads to all cores, which the training workers need as well.
        return {"VLLM_CPU_OMP_THREADS_BIND": os.environ.get("VLLM_CPU_OMP_THREADS_BIND", "nobind")}

    def cudart(self) -> Any:
        return None


def register_platform() -> None:
    """Register `CPUPlatform` under the name "cpu"."""
    if PlatformRegistry.get("cpu") is not CPUPlatform:
        PlatformRegistry.register(platform="cpu")(CPUPlatform)
