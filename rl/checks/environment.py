"""`python -m rl.checks.environment DEVICE RANKS`: check this machine and this Python's packages, for `dph doctor`.

DEVICE is a file of verl/dph/config/device. Prints a JSON object per check (finding.py). Of this package only this
module imports torch and vLLM.
"""

import importlib
import importlib.util
import shutil
import sys
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from rl.checks.finding import Check, Finding, fail, look_at, ok, print_all, skipped
from rl.common.text import GB
from rl.configuration.names import is_cpu

# The version whose hooks verl.dph overrides.
VERL = "0.9.1"
INSTALL = (
    "install the environment (make install, with GPUs make install-gpu), and activate it or name its Python in PYTHON."
)
SHM = "/dev/shm"


@dataclass(frozen=True)
class Machine:
    """How a run would use this machine.

    Attributes:
        ranks: processes that train on it.
    """

    on_cpu: bool
    ranks: int = 1


def python(machine: Machine) -> Finding:
    return ok(f"{sys.version.split()[0]} ({sys.executable})")


def verl(machine: Machine) -> Finding:
    version = _installed("verl")
    if version != VERL:
        return fail(f"{version or 'not installed'}, and verl.dph overrides hooks of {VERL}: {INSTALL}")
    return ok(version)


def shared_memory(machine: Machine) -> Finding:
    """Docker's default of 64 MB is too little for NCCL, vLLM and the data loader, which share memory."""
    if machine.on_cpu:
        return skipped("needed with GPUs")
    free = shutil.disk_usage(SHM).free
    found = f"{free / GB:.3g} GB free in {SHM}"
    return ok(found) if free >= GB else fail(f"{found}: start the container with --ipc=host.")


def torch(machine: Machine) -> Finding:
    finding, module = _imported("torch")
    if module is None or machine.on_cpu:
        return finding
    if module.version.cuda is None:
        return fail(f"{finding.found} is built without CUDA: use the environment of make install-gpu, or DEVICE=cpu.")
    return ok(f"{finding.found}, CUDA {module.version.cuda}")


def gpus(machine: Machine) -> Finding:
    """The GPUs that torch sees, with a product on each of them; CUDA says when the driver is too old."""
    if machine.on_cpu:
        return skipped("the device is the CPU: no NVIDIA GPU is visible here, or device= or DEVICE names it")
    import torch

    names = []
    try:
        torch.cuda.init()  # raises an error that says why no GPU is visible
        for number in range(torch.cuda.device_count()):
            names.append(torch.cuda.get_device_name(number))
            ones = torch.ones(64, 64, device=f"cuda:{number}", dtype=torch.bfloat16)
            assert (ones @ ones).sum().item() == 64**3, f"GPU {number} multiplies wrongly"
    except Exception as error:  # torch raises what CUDA says
        return fail(
            f"torch cannot use them ({_first_line(error)}): install NVIDIA's driver, start the container with --gpus "
            "all, or use DEVICE=cpu."
        )
    listed = f"{len(names)} x {' and '.join(sorted({*names}))}" if names else "none is visible"
    if len(names) < machine.ranks:
        return fail(
            f"{listed}, and the run asks for {machine.ranks}: lower GPUS_PER_NODE, or correct CUDA_VISIBLE_DEVICES."
        )
    return ok(f"{listed}, a product in bfloat16 on each")


def vllm(machine: Machine) -> Finding:
    """Its compiled part fits the installed torch."""
    if machine.on_cpu and _installed("vllm") is None:
        return skipped("the rollout on a CPU is hf; vLLM's CPU build has an environment of its own (make install-vllm)")
    finding, module = _imported("vllm")
    if module is not None and importlib.util.find_spec("vllm._C") is not None:
        finding, _ = _imported("vllm", "vllm._C")
    return finding


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _imported(package: str, module: str = "") -> tuple[Finding, Any]:
    """The package's version and the imported module, or a failure and None."""
    version = _installed(package)
    if version is None:
        return fail(f"not installed: {INSTALL}"), None
    try:
        return ok(version), importlib.import_module(module or package)
    except Exception as error:  # a library that does not load
        return fail(f"{version}: {_first_line(error)}: {INSTALL}"), None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or repr(error)).splitlines()[0]


# Those that import compiled libraries come last: such an import may end the process.
CHECKS: tuple[Check[Machine], ...] = (
    Check("python", python),
    Check("verl", verl),
    Check("shared memory", shared_memory),
    Check("torch", torch),
    Check("GPUs", gpus, needs=("torch",)),
    Check("vLLM", vllm, needs=("torch",)),
)

if __name__ == "__main__":
    print_all(look_at(CHECKS, Machine(is_cpu(sys.argv[1]), int(sys.argv[2]))))
