"""The part of torch.cuda's module interface that verl calls, for a process on the CPU.

Memory is the process's and the machine's, in bytes; functions without a meaning on a CPU do nothing.
"""

import resource

import psutil
import torch
from torch.cpu import Stream, current_stream, is_available, stream, synchronize  # noqa: F401  (part of the interface)

get_rng_state = torch.get_rng_state
set_rng_state = torch.set_rng_state
manual_seed = manual_seed_all = torch.manual_seed


def device_count() -> int:
    return 1


def current_device() -> int:
    return 0


def nothing(*args, **kwargs) -> None:
    """A process on the CPU has one device, no allocator's cache, no shared handles and a peak that cannot be reset."""


set_device = empty_cache = ipc_collect = reset_peak_memory_stats = nothing


def get_device_name(device=None) -> str:
    """The name that verl's table of peak FLOPS knows (verl/utils/flops_counter.py)."""
    return "CPU"


def memory_allocated(device=None) -> int:
    return psutil.Process().memory_info().rss


def max_memory_allocated(device=None) -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


memory_reserved = memory_allocated
max_memory_reserved = max_memory_allocated


def mem_get_info(device=None) -> tuple[int, int]:
    """(free, total) main memory."""
    memory = psutil.virtual_memory()
    return memory.available, memory.total
