"""The part of torch.cuda's module interface that verl calls, for a process on the CPU.

Memory is the process's and the machine's, in bytes; functions without a meaning on a CPU do nothing.
"""

import ctypes
import resource

import psutil
import torch
from torch.cpu import Stream, current_stream, is_available, stream, synchronize  # noqa: F401  (part of the interface)

get_rng_state = torch.get_rng_state
set_rng_state = torch.set_rng_state
manual_seed = manual_seed_all = torch.manual_seed
# Bytes of free heap that empty_cache leaves to the process, which would fault in again every page that it gives back.
KEPT = 128 << 20
_LIBC = ctypes.CDLL(None)


class _Heap(ctypes.Structure):
    """glibc's struct mallinfo2."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks"),
            *("fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def device_count() -> int:
    return 1


def current_device() -> int:
    return 0


def nothing(*args, **kwargs) -> None:
    """A process on the CPU has one device, no shared handles and a peak that cannot be reset."""


set_device = ipc_collect = reset_peak_memory_stats = nothing


def empty_cache() -> None:
    """Give the free pages of the heap back to the system if there are many.

    verl calls it between the phases of a step, and so does the rollout `hf` after sampling. Otherwise the pages of one
    process's phase are missing in another's. glibc before 2.33 cannot say how much is free, and nothing happens.
    """
    if free_heap() > KEPT:
        _LIBC.malloc_trim(0)


def free_heap() -> int:
    """Bytes of this process's heap that are free; 0 if the C library does not say."""
    mallinfo2 = getattr(_LIBC, "mallinfo2", None)
    if mallinfo2 is None:
        return 0
    mallinfo2.restype = _Heap
    return mallinfo2().fordblks


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
