"""Seconds and peak memory of pieces of work: the GPU's memory, or without a GPU a process's."""

import ctypes
import multiprocessing
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

import torch
from tqdm import tqdm

ON_CUDA = torch.cuda.is_available() and os.environ.get("VERL_PLATFORM") != "cpu"
DEVICE = "cuda" if ON_CUDA else "cpu"
Result = TypeVar("Result")


def peak_bytes(work: Callable[[], object]) -> int:
    """Bytes by which memory grows during `work()`: allocated on the GPU, or resident in this process.

    On a CPU, memory that earlier work has left free in this process would hide the peak. The allocator gives back what
    it can, but a separate process for each measurement (`in_own_process`) is surer.
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


def in_own_process(work: Callable[..., Result], *arguments: object) -> Result:
    """The result of a program's function in a new process, which has only imported the program.

    What it prints goes to stderr, so that this program's output is its results.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), os.dup2, (2, 1)) as process:
        return process.submit(work, *arguments).result()


def in_turns(works: Mapping[str, Callable[[], Result]], rounds: int, title: str) -> dict[str, list[Result]]:
    """The results of each work in all rounds. In a round each has its turn; one more round before them warms up."""
    found: dict[str, list[Result]] = {name: [] for name in works}
    for round_number in tqdm(range(rounds + 1), desc=title, unit="round"):
        for name, work in works.items():
            result = work()
            if round_number:
                found[name].append(result)
    return found


def resident(name: str) -> int:
    """Bytes of this process: VmRSS, or their peak VmHWM."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))
