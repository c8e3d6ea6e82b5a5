"""Checks of the machine: driver, GPUs, memory, shared memory, file limits, disk."""

import os
import resource
import shutil
import tempfile

from rl.checks import main_memory
from rl.checks.finding import Finding, Unknown, fail, ok, skipped, warn
from rl.checks.machine import Gpu, Machine, users_of
from rl.common.errors import UserError
from rl.common.size import GB, in_gb

# The oldest Linux driver of a CUDA release, by its major version (CUDA's release notes, minor version compatibility).
DRIVER_OF_CUDA = {"11": 450, "12": 525, "13": 580}
# A GPU is busy if more than this share of its memory is in use before a run; driver and ECC take less.
IN_USE = 0.05
# Ray puts its object store, 30 % of the memory, into /tmp when it is larger than both this and /dev/shm.
RAY_OBJECT_STORE = 10 * GB
RAY_SHARE_OF_MEMORY = 0.3
# Shared memory for NCCL between GPUs without peer access, vLLM's message queues and the data loader (estimated).
SHARED_PER_GPU = GB
OPEN_FILES, OPEN_FILES_ON_CPU = 65_536, 4_096
# Ray stores no objects on a disk that is fuller than this, and soon spills 10 GB.
FULL_DISK = 0.95
LITTLE_DISK = 10 * GB
SHM = "/dev/shm"


def driver(machine: Machine) -> Finding:
    if machine.on_cpu:
        return skipped(machine.why)
    try:
        version = machine.gpus[0].driver if machine.gpus else None
    except Unknown as error:
        return fail(
            f"no driver answers ({error})",
            "install NVIDIA's driver, start the container with --gpus all, or use DEVICE=cpu.",
        )
    if version is None:
        return fail(
            f"CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES')} leaves no GPU visible",
            "correct or unset it.",
        )
    try:
        torch = machine.probe("torch")
    except Unknown:
        return ok(f"{version}; torch, which needs it, cannot be imported")
    cuda = torch["cuda"]
    needed = DRIVER_OF_CUDA.get(str(cuda).partition(".")[0])
    if needed is None or int(version.partition(".")[0]) >= needed:
        return ok(version)
    if torch["error"] is None:
        return ok(f"{version} with cuda-compat, older than R{needed} of CUDA {cuda}")
    return fail(
        f"{version} is too old for torch's CUDA {cuda}, which needs R{needed} or newer",
        f"update it, or install cuda-compat-{cuda.replace('.', '-')} and put its folder first in LD_LIBRARY_PATH.",
    )


def gpus(machine: Machine) -> Finding:
    if machine.on_cpu:
        return skipped(machine.why)
    found = machine.gpus
    kinds = sorted({f"{gpu.name}, {gpu.memory / 1024:.0f} GiB" for gpu in found})
    listed = f"{len(found)} x {' and '.join(kinds)}"
    if len(found) < machine.ranks or not found:
        return fail(
            f"{listed}, and the run asks for {machine.ranks}" if found else "none is visible",
            "lower GPUS_PER_NODE, or correct CUDA_VISIBLE_DEVICES.",
        )
    busy = [gpu for gpu in found if gpu.used > IN_USE * gpu.memory > 0]
    if busy:
        used = ", ".join(_use(gpu) for gpu in busy)
        return warn(f"{listed}; in use: {used}", "end what uses them, or choose others in CUDA_VISIBLE_DEVICES.")
    if len(kinds) > 1:
        return warn(
            f"{listed}: every rank gets as much work and memory as the smallest can hold",
            "choose equal ones in CUDA_VISIBLE_DEVICES.",
        )
    return ok(listed)


def _use(gpu: Gpu) -> str:
    users = users_of(gpu)
    by = f" by process {', '.join(users)}" if users else ""
    return f"GPU {gpu.index} {gpu.used / 1024:.1f} GiB{by}"


def memory(machine: Machine) -> Finding:
    """The main memory, and on a CPU what the run needs of it."""
    if not machine.on_cpu:
        return skipped("dph plan compares the GPUs' memory with what the run needs")
    total, free = main_memory.memory()
    found = f"{free / GB:.3g} of {total / GB:.3g} GB are free"
    if machine.run is None:
        return ok(found)
    try:
        needed = main_memory.need_of(machine.run.program, machine.run.values).bytes
    except UserError as error:
        return ok(f"{found}; what the run needs is not known: {error}")
    found = f"{found}, and the run needs about {in_gb(needed)} (estimated)"
    return ok(found) if needed <= free else warn(found, f"end other programs, {main_memory.LESS}.")


def shared_memory(machine: Machine) -> Finding:
    free = shutil.disk_usage(SHM).free
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        others = 0 if machine.on_cpu else machine.ranks * SHARED_PER_GPU
    except Unknown:
        others = SHARED_PER_GPU
    needed = min(RAY_OBJECT_STORE, RAY_SHARE_OF_MEMORY * memory) + others
    found = f"{free / GB:.3g} GB free in {SHM}"
    advice = f"start the container with --shm-size={needed / GB:.0f}g or --ipc=host."
    if free < GB and not machine.on_cpu:
        return fail(f"{found}: NCCL, vLLM and the data loader, which share memory, would fail", advice)
    if free < needed:
        return warn(f"{found}: Ray would put its object store on the disk", advice)
    return ok(found)


def open_files(machine: Machine) -> Finding:
    # Ray raises the soft limit to the hard one.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = OPEN_FILES_ON_CPU if machine.on_cpu else OPEN_FILES
    if hard == resource.RLIM_INFINITY:
        return ok("unlimited (ulimit -Hn)")
    if hard >= needed:
        return ok(f"{hard:,} (ulimit -Hn)")
    return warn(
        f"{hard:,} (ulimit -Hn), and Ray with many workers opens more",
        f"raise it to {needed:,}: ulimit -n, limits.conf, or docker run --ulimit nofile={needed}.",
    )


def disk(machine: Machine) -> Finding:
    folder = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    try:
        usage = shutil.disk_usage(folder)
    except OSError as error:
        return fail(f"RAY_TMPDIR={folder} cannot be used ({error.strerror})", "name a folder that exists.")
    found = f"{usage.free / GB:.3g} GB free in {folder}, for Ray"
    if 1 - usage.free / usage.total > FULL_DISK:
        return fail(
            f"{found}: it is more than {FULL_DISK:.0%} full, and Ray stores no objects there",
            "make room, or name another folder with a short path in RAY_TMPDIR.",
        )
    if usage.free < LITTLE_DISK:
        return warn(found, "make room, or name another folder with a short path in RAY_TMPDIR.")
    return ok(found)
