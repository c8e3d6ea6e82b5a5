"""Checks of the machine and its environment: versions, GPUs, disk."""

import os
import shutil
import tempfile

from rl.checks.finding import Finding, fail, ok, skipped, warn
from rl.checks.machine import Machine, Unknown
from rl.common.text import GB, in_bytes

# The version whose hooks verl.dph overrides.
VERL = "0.9.1"
OLDEST_PYTHON, PYTHON_OF_GPUS = (3, 11), (3, 12)
INSTALL = (
    "install the environment (make install, with GPUs make install-gpu), and activate it or name its Python in PYTHON."
)
# A GPU is busy if more than this share of its memory is in use before a run; driver and the check itself take less.
IN_USE = 0.05
# Ray stores no objects on a disk that is fuller than this, and soon spills 10 GB.
FULL_DISK = 0.95
LITTLE_DISK = 10 * GB
SHM = "/dev/shm"


def python(machine: Machine) -> Finding:
    try:
        version = machine.packages["python"]
    except Unknown as error:
        return fail(f"{machine.python} cannot look into its environment ({error})", INSTALL)
    release = tuple(map(int, str(version).split(".")[:2]))
    if release < OLDEST_PYTHON:
        return fail(f"{version} ({machine.python}): this project needs 3.11 or newer", INSTALL)
    if not machine.on_cpu and release != PYTHON_OF_GPUS:
        return warn(
            f"{version} ({machine.python}): wheels of flash-attn for torch 2.11 with CUDA 13 exist only for 3.12",
            "make the environment with Python 3.12.",
        )
    return ok(f"{version} ({machine.python})")


def verl(machine: Machine) -> Finding:
    version = machine.packages["verl"]
    if version != VERL:
        return fail(f"{version or 'not installed'}: verl.dph overrides hooks of {VERL}", INSTALL)
    return ok(version)


def torch(machine: Machine) -> Finding:
    version, error = machine.packages["torch"], machine.packages["errors"].get("torch")
    if version is None or error:
        return fail(f"{version or 'not installed'}" + (f": {error}" if error else ""), INSTALL)
    if machine.on_cpu:
        return ok(version)
    if machine.packages["cuda"] is None:
        return fail(f"{version} is built without CUDA", "use the environment of make install-gpu, or DEVICE=cpu.")
    return ok(f"{version}, CUDA {machine.packages['cuda']}")


def gpus(machine: Machine) -> Finding:
    """The GPUs that torch sees, with a product on each of them; CUDA says when the driver is too old."""
    if machine.on_cpu:
        return skipped("the device is the CPU: no NVIDIA GPU is visible here, or device= or DEVICE names it")
    found, error = machine.packages["gpus"], machine.packages["errors"].get("gpus")
    if error:
        return fail(
            f"torch cannot use them ({error})",
            "install NVIDIA's driver, start the container with --gpus all, or use DEVICE=cpu.",
        )
    listed = f"{len(found)} x {' and '.join(sorted({gpu['name'] for gpu in found}))}" if found else "none is visible"
    if len(found) < machine.ranks:
        return fail(
            f"{listed}, and the run asks for {machine.ranks}", "lower GPUS_PER_NODE, or correct CUDA_VISIBLE_DEVICES."
        )
    used = [(number, gpu["total"] - gpu["free"], gpu["total"]) for number, gpu in enumerate(found)]
    if busy := [f"GPU {number} {in_bytes(taken)}" for number, taken, total in used if taken > IN_USE * total]:
        return warn(
            f"{listed}; in use: {', '.join(busy)}", "end what uses them, or choose others in CUDA_VISIBLE_DEVICES."
        )
    return ok(f"{listed}, a product in bfloat16 on each")


def vllm(machine: Machine) -> Finding:
    version, error = machine.packages["vllm"], machine.packages["errors"].get("vllm")
    if version is None and machine.on_cpu:
        return skipped("the rollout on a CPU is hf; vLLM's CPU build has an environment of its own (make install-vllm)")
    if version is None or error:
        return fail(f"{version or 'not installed'}" + (f": {error}" if error else ""), INSTALL)
    return ok(version)


def shared_memory(machine: Machine) -> Finding:
    """Docker's default of 64 MB is too little for NCCL, vLLM and the data loader, which share memory."""
    if machine.on_cpu:
        return skipped("needed with GPUs")
    free = shutil.disk_usage(SHM).free
    found = f"{free / GB:.3g} GB free in {SHM}"
    return ok(found) if free >= GB else fail(found, "start the container with --ipc=host or a larger --shm-size.")


def ray_folder(machine: Machine) -> Finding:
    folder = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    advice = "make room, or name another folder with a short path in RAY_TMPDIR."
    try:
        usage = shutil.disk_usage(folder)
    except OSError as error:
        return fail(f"RAY_TMPDIR={folder} cannot be used ({error.strerror})", "name a folder that exists.")
    found = f"{usage.free / GB:.3g} GB free in {folder}, for Ray"
    if 1 - usage.free / usage.total > FULL_DISK:
        return fail(f"{found}: it is more than {FULL_DISK:.0%} full, and Ray stores no objects there", advice)
    return warn(found, advice) if usage.free < LITTLE_DISK else ok(found)
