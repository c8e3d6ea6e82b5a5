"""Peak memory of a piece of work: the GPU's, or without a GPU this process's."""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

import torch

ON_CUDA = torch.cuda.is_available() and os.environ.get("VERL_PLATFORM") != "cpu"


def peak_bytes(work: Callable[[], object]) -> int:
    """Bytes by which memory grows during `work()`: allocated on the GPU, or resident in this process.

    On a CPU, memory that earlier work has left free in this process would hide the peak. The allocator gives back what
    it can, but a separate process for each measurement is surer.
    """
    if ON_CUDA:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM becomes the present value
    before = resident("VmRSS")
    work()
    return resident("VmHWM") - before


def resident(name: str) -> int:
    """Bytes of this process: VmRSS, or their peak VmHWM."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))
