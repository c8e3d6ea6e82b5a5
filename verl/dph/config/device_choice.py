"""The device of a program: from its arguments or DEVICE, else the CPU if torch finds no accelerator.

verl chooses its platform by VERL_PLATFORM while it is imported, before the configuration is composed. The plugin
(verl.dph.plugin) therefore reads the command line, and run_main adds the device to the configuration.
"""

import os
import re
import sys
from collections.abc import Sequence

from verl.utils.device import is_cuda_available, is_npu_available

from rl.common.errors import UserError

_PROGRAM = re.compile(r"verl\.dph\.(main|presample|evaluate)")


def has_accelerator() -> bool:
    """Whether torch finds a GPU or NPU here; a running Ray (RAY_ADDRESS) may have some elsewhere."""
    return is_cuda_available or is_npu_available or "RAY_ADDRESS" in os.environ


def chosen_device(arguments: Sequence[str]) -> str:
    """The file of verl/dph/config/device for a program with these arguments."""
    said = [word.removeprefix("device=") for word in arguments if word.startswith("device=")]
    if said or os.environ.get("DEVICE"):
        return said[-1] if said else os.environ["DEVICE"]
    return "cuda" if has_accelerator() and os.environ.get("VERL_PLATFORM") != "cpu" else "cpu"


def set_platform(command: Sequence[str]) -> None:
    """Set VERL_PLATFORM=cpu, unless it is set, in a process that runs one of our programs on a CPU.

    Args:
        command: sys.orig_argv. Other processes, such as Ray's, inherit the variable.
    """
    if any(map(_PROGRAM.fullmatch, command)) and chosen_device(command).startswith("cpu"):
        os.environ.setdefault("VERL_PLATFORM", "cpu")


def add_device(arguments: list[str]) -> list[str]:
    """The arguments with the device. A line on stderr says so if it is the CPU because there is no GPU."""
    if any(word.startswith("device=") for word in arguments):
        return arguments
    device = chosen_device(arguments)
    if not (has_accelerator() or os.environ.get("DEVICE")):
        sys.stderr.write(f"No GPU was found: running on the CPU (device={device}).\n")
    return with_overrides(arguments, [f"device={device}"])


def with_overrides(arguments: list[str], overrides: list[str]) -> list[str]:
    """The arguments with further overrides before the first one: Hydra wants all of them on one side of its options."""
    first = next((i for i, word in enumerate(arguments) if "=" in word and not word.startswith("-")), 0)
    return [*arguments[:first], *overrides, *arguments[first:]]


def check_device(device: str | None) -> None:
    """Reject trainer.device=cuda where there is no GPU.

    Raises:
        UserError: saying what to do.
    """
    if device == "cuda" and not has_accelerator():
        raise UserError(
            "device=cuda needs a GPU, and torch finds none here: to run on the CPU, say device=cpu or leave device out "
            "(the scripts: DEVICE=cpu); if there is one, look at nvidia-smi, CUDA_VISIBLE_DEVICES and torch's build."
        )
