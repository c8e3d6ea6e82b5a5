"""`python -m rl.checks.probe NAME [ARGUMENT ...]`: look into an environment from within, in a process that may die.

Prints what the function NAME returns as one line of JSON. Of this package only this module imports torch, verl or vLLM.
"""

import importlib
import importlib.util
import json
import platform
import sys

from rl.common.installed import installed_version


def packages() -> dict[str, str | None]:
    """Versions of Python, verl and vLLM, without importing anything."""
    names = {"verl": installed_version("verl"), "vllm": installed_version("vllm")}
    return {"python": platform.python_version()} | names


def torch() -> dict:
    """torch's version and its CUDA, and whether a matrix product works on every GPU that it sees."""
    import torch

    found = {"version": torch.__version__, "cuda": torch.version.cuda, "devices": 0, "error": None}
    if torch.version.cuda is None:
        return found
    try:
        torch.cuda.init()
        found["devices"] = torch.cuda.device_count()
        for device in range(torch.cuda.device_count()):
            ones = torch.ones(64, 64, device=f"cuda:{device}", dtype=torch.bfloat16)
            assert (ones @ ones).sum().item() == 64**3
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


def vllm() -> dict:
    """Whether vLLM's compiled part fits the installed torch."""
    importlib.import_module("vllm")
    if importlib.util.find_spec("vllm._C") is not None:
        importlib.import_module("torch")  # its libraries come first
        importlib.import_module("vllm._C")
    return {"version": installed_version("vllm")}


if __name__ == "__main__":
    probes = {function.__name__: function for function in (packages, torch, plugin, vllm)}
    name, *arguments = sys.argv[1:]
    sys.stdout.write(json.dumps(probes[name](*arguments)) + "\n")
