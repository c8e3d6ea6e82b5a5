"""`python -m rl.checks.probe`: look into an environment from within, in a process that may die.

Prints one line of JSON (look). Of this package only this module imports torch or vLLM.
"""

import importlib
import importlib.util
import json
import platform
import sys
from typing import Any

from rl.common.installed import installed_version


def look() -> dict[str, Any]:
    """Versions, None for what is not installed; torch's CUDA and GPUs; and in "errors" a line for torch, gpus and vllm
    if they do not work."""
    found: dict[str, Any] = {name: installed_version(name) for name in ("verl", "vllm", "torch")}
    found |= {"python": platform.python_version(), "cuda": None, "gpus": [], "errors": {}}
    for name, check in {"torch": _cuda, "gpus": _gpus, "vllm": _vllm}.items():
        try:
            found |= check() if found["vllm" if name == "vllm" else "torch"] else {}
        except Exception as error:  # torch raises what CUDA says
            found["errors"][name] = (str(error).strip() or repr(error)).splitlines()[0]
    return found


def _cuda() -> dict[str, Any]:
    import torch

    return {"cuda": torch.version.cuda}


def _gpus() -> dict[str, Any]:
    """The GPUs that torch sees, each after a matrix product on it; memory in bytes."""
    import torch

    if torch.version.cuda is None:
        return {}
    torch.cuda.init()  # raises an error that says why no GPU is visible
    found = []
    for device in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(device)
        found.append({"name": torch.cuda.get_device_name(device), "free": free, "total": total})
        ones = torch.ones(64, 64, device=f"cuda:{device}", dtype=torch.bfloat16)
        assert (ones @ ones).sum().item() == 64**3, f"GPU {device} multiplies wrongly"
    return {"gpus": found}


def _vllm() -> dict[str, Any]:
    """Raises an error if vLLM's compiled part does not fit the installed torch."""
    importlib.import_module("vllm")
    if importlib.util.find_spec("vllm._C") is not None:
        importlib.import_module("torch")  # its libraries come first
        importlib.import_module("vllm._C")
    return {}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(look()) + "\n")
