"""Checks of the machine and its environment: versions, GPUs, disk."""

import os
import shutil
import tempfile

from rl.checks.finding import Finding, Unknown, fail, ok, skipped, warn
from rl.checks.machine import Machine
from rl.common.text import GB

# The version whose hooks verl.dph overrides.
VERL = "0.9.1"
OLDEST_PYTHON, PYTHON_OF_GPUS = (3, 11), (3, 12)
INSTALL = (
    "install the environment (make install, with GPUs make install-gpu), and activate it or name its Python in PYTHON."
)
# A GPU is busy if more than this share of its memory is in use before a run; driver and ECC take less.
IN_USE = 0.05
# Ray stores no objects on a disk that is fuller than this, and soon spills 10 GB.
FULL_DISK = 0.95
LITTLE_DISK = 10 * GB
SHM = "/dev/shm"


def python(machine: Machine) -> Finding:
    try:
        version = machine.probe("packages")["python"]
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


def gpus(machine: Machine) -> Finding:
    if machine.on_cpu:
        return skipped(machine.why)
    try:
        found = machine.gpus
    except Unknown as error:
        return fail(
            f"no driver answers ({error})",
            "install NVIDIA's driver, start the container with --gpus all, or use DEVICE=cpu.",
        )
    listed = f"{len(found)} x {' and '.join(sorted({gpu.name for gpu in found}))}" if found else "none is visible"
    if len(found) < max(machine.ranks, 1):
        return fail(
            f"{listed}, and the run asks for {machine.ranks}", "lower GPUS_PER_NODE, or correct CUDA_VISIBLE_DEVICES."
        )
    busy = [f"GPU {gpu.index} {gpu.used / 1024:.1f} GiB" for gpu in found if gpu.used > IN_USE * gpu.memory > 0]
    if busy:
        return warn(
            f"{listed}; in use: {', '.join(busy)}", "end what uses them, or choose others in CUDA_VISIBLE_DEVICES."
        )
    return ok(listed)


def torch(machine: Machine) -> Finding:
    """torch, and on GPUs a product on each of them; CUDA says when the driver is too old."""
    try:
        found = machine.probe("torch")
    except Unknown as error:
        return fail(f"cannot be imported ({error})", INSTALL)
    if machine.on_cpu:
        return ok(found["version"])
    if found["cuda"] is None:
        return fail(
            f"{found['version']} is built without CUDA", "use the environment of make install-gpu, or DEVICE=cpu."
        )
    if found["error"] is not None:
        return fail(f"{found['version']} cannot use the GPUs: {found['error']}", "look at nvidia-smi.")
    return ok(f"{found['version']}, CUDA {found['cuda']}, a product in bfloat16 on each of {found['devices']} GPUs")


def verl(machine: Machine) -> Finding:
    version = machine.probe("packages")["verl"]
    if version is None:
        return fail("not installed", INSTALL)
    if version != VERL:
        return fail(f"{version}: verl.dph overrides hooks of {VERL}", f"pip install verl=={VERL}.")
    return ok(version)


def plugin(machine: Machine) -> Finding:
    try:
        found = machine.probe("plugin")
    except Unknown as error:
        return fail(f"verl cannot be imported ({error})", INSTALL)
    if found["loaded"]:
        return ok("verl loads verl.dph")
    if found["error"] is not None:
        return fail(f"verl.dph cannot register itself: {found['error']}", INSTALL)
    policy = machine.environment.get("VERL_USE_EXTERNAL_PLUGINS")
    if policy is not None:
        return fail(
            f"VERL_USE_EXTERNAL_PLUGINS={policy} keeps verl from loading verl.dph", "unset it, or add dph to it."
        )
    return fail("verl does not load verl.dph: this repository is not installed there", "pip install --no-deps -e .")


def vllm(machine: Machine) -> Finding:
    version = machine.probe("packages")["vllm"]
    if version is None and machine.on_cpu:
        return skipped("the rollout on a CPU is hf; vLLM's CPU build has an environment of its own (make install-vllm)")
    if version is None:
        return fail("not installed", "make install-gpu.")
    try:
        return ok(machine.probe("vllm")["version"])
    except Unknown as error:
        return fail(
            f"{version} cannot be imported ({error})",
            "install vLLM and torch as requirements.txt has them: make install-gpu.",
        )


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
