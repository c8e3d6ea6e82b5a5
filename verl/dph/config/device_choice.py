"""The device of a program: from its arguments or DEVICE, otherwise the CPU if torch finds no accelerator.

When verl is imported, it chooses its platform by VERL_PLATFORM, and the configuration is composed later. So the plugin
(verl.dph.plugin) reads the command line, and run_main adds the device to the configuration.
"""

import os
import sys
from collections.abc import Sequence

from verl.utils.device import is_cuda_available, is_npu_available

from rl.common.errors import UserError
from rl.configuration.names import EVALUATE, MAIN, PRESAMPLE, is_cpu, joins_ray, named_device


def has_accelerator() -> bool:
    """Whether torch finds a GPU or NPU here, or a running Ray (RAY_ADDRESS) may have some elsewhere."""
    return is_cuda_available or is_npu_available or joins_ray()


def chosen_device(arguments: Sequence[str]) -> str:
    """The file of verl/dph/config/device for a program with these arguments."""
    if named := named_device(arguments):
        return named
    return "cuda" if has_accelerator() and os.environ.get("VERL_PLATFORM") != "cpu" else "cpu"


def set_platform(command: Sequence[str]) -> None:
    """Set VERL_PLATFORM=cpu, unless it is set, if this process runs one of our programs on a CPU.

    Args:
        command: sys.orig_argv; other processes, such as Ray's, inherit the variable.
    """
    if {MAIN, PRESAMPLE, EVALUATE} & {*command} and is_cpu(chosen_device(command)):
        os.environ.setdefault("VERL_PLATFORM", "cpu")


def add_device(arguments: list[str]) -> list[str]:
    """Add the device to the arguments. If the CPU is used for lack of a GPU, print a line on stderr."""
    if any(word.startswith("device=") for word in arguments):
        return arguments
    device = chosen_device(arguments)
    if not (has_accelerator() or os.environ.get("DEVICE")):
        sys.stderr.write(f"No GPU was found: running on the CPU (device={device}).\n")
    return with_overrides(arguments, [f"device={device}"])


def with_overrides(arguments: list[str], overrides: list[str]) -> list[str]:
    """Add overrides before the first one, because Hydra needs all of them on one side of its options."""
    first = next((i for i, word in enumerate(arguments) if "=" in word and not word.startswith("-")), 0)
    return [*arguments[:first], *overrides, *arguments[first:]]


def check_device(device: str | None) -> None:
    """Reject trainer.device=cuda on a machine without a GPU."""
    if device == "cuda" and not has_accelerator():
        raise UserError(
            "device=cuda needs a GPU, and torch finds none here: to run on the CPU, pass device=cpu or leave it out "
            "(scripts: DEVICE=cpu); if there is one, look at nvidia-smi, CUDA_VISIBLE_DEVICES and torch's build."
        )
