"""`python -m rl.checks.probe NAME [ARGUMENT ...]`: look into an environment from within, in a process that may die.

Prints what the function NAME returns as one line of JSON. Of this package only this module imports torch, verl or vLLM.
"""

import importlib
import importlib.util
import json
import os
import platform
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from rl.common.installed import installed_version


def packages() -> dict[str, str | None]:
    """Versions of Python, verl and vLLM, and where cupy and Python.h are, without importing anything."""
    cupy = importlib.util.find_spec("cupy")
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    return {
        "python": platform.python_version(),
        "verl": installed_version("verl"),
        "vllm": installed_version("vllm"),
        "import cupy": None if cupy is None else cupy.origin,
        "Python.h": str(header) if header.is_file() else None,
    }


def torch() -> dict:
    """torch's version and its CUDA, and whether a matrix product works on every GPU that it sees."""
    import torch

    found = {"version": torch.__version__, "cuda": torch.version.cuda, "devices": 0, "error": None, "nccl": None}
    if torch.version.cuda is None:
        return found
    try:
        torch.cuda.init()
        found["devices"] = torch.cuda.device_count()
        for device in range(torch.cuda.device_count()):
            ones = torch.ones(64, 64, device=f"cuda:{device}", dtype=torch.bfloat16)
            assert (ones @ ones).sum().item() == 64**3
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    except Exception as error:  # torch raises what CUDA says
        found["error"] = str(error).strip().splitlines()[0]
    return found


def plugin() -> dict:
    """Whether importing verl, and nothing of ours, loads verl.dph.plugin, as it must in Ray's workers."""
    import verl  # noqa: F401

    ours = sys.modules.get("verl.dph.plugin")
    found: dict = {"loaded": bool(ours and ours.registered), "error": None}
    try:
        importlib.import_module("verl.dph.plugin")
    except Exception as error:  # verl logs it at DEBUG only
        found["error"] = f"{type(error).__name__}: {error}"
    return found


def attention() -> dict:
    """What training chooses here, and why nothing better; it may fetch a kernel from the Hugging Face Hub."""
    chosen, reasons = importlib.import_module("verl.dph.config.attention").choose()
    return {"chosen": chosen, "reasons": reasons}


def vllm() -> dict:
    """Whether vLLM's compiled part fits the installed torch."""
    importlib.import_module("vllm")
    if importlib.util.find_spec("vllm._C") is not None:
        importlib.import_module("torch")  # its libraries come first
        importlib.import_module("vllm._C")
    return {"version": installed_version("vllm")}


def ranks(count: str, backend: str) -> dict:
    """Sum over `count` processes as training does: with NCCL between this machine's GPUs, with gloo on a CPU."""
    import torch.multiprocessing

    started = time.monotonic()
    os.environ |= {"NCCL_DEBUG": os.environ.get("NCCL_DEBUG", "WARN"), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory(prefix="dph-doctor-") as folder:
        torch.multiprocessing.spawn(_rank, (int(count), backend, f"{folder}/meeting"), nprocs=int(count))
    return {"seconds": time.monotonic() - started}


def _rank(rank: int, count: int, backend: str, meeting: str) -> None:
    import torch

    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    torch.distributed.init_process_group(backend, init_method=f"file://{meeting}", rank=rank, world_size=count)
    numbers = torch.full((1 << 20,), float(rank + 1), device=device)
    torch.distributed.all_reduce(numbers)
    expected = count * (count + 1) / 2
    if not (numbers == expected).all():
        raise ValueError(f"the sum is {numbers[0].item():g}, not {expected:g}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    probes = {function.__name__: function for function in (packages, torch, plugin, attention, vllm, ranks)}
    name, *arguments = sys.argv[1:]
    sys.stdout.write(json.dumps(probes[name](*arguments)) + "\n")
