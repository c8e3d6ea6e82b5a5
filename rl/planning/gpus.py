"""GPU types: their memory, and the speeds that a plan assumes of them.

Memory is counted as on the label: the GB of a type are its GiB, and a plan counts 1e9 bytes as a GB. The 7 % between
the two are left to the allocator's fragmentation.
"""

import re
import subprocess
from dataclasses import dataclass, replace

from rl.common.errors import UserError

_NVIDIA_SMI = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
_ANSWERS_WITHIN_S = 10


@dataclass(frozen=True)
class Gpu:
    """A GPU type.

    Attributes:
        name: as in --gpu.
        memory: GB, as on the label.
        tflops: bf16 TFLOP/s that training reaches, estimated: about 0.45 of the dense peak on Ampere, 0.4 on Hopper and
            later (h20, whose peak is low: 0.7). None: nothing is known of the type; the plan then has no times.
        bandwidth: TB/s of its memory, from the data sheet.
        assumed: nobody named the type, and this machine has no GPU.
    """

    name: str
    memory: float
    tflops: float | None
    bandwidth: float | None
    assumed: bool = False


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("a100", 80, 140, 2.0),
        Gpu("a800", 80, 140, 2.0),
        Gpu("h100", 80, 400, 3.35),
        Gpu("h800", 80, 400, 3.35),
        Gpu("h200", 141, 400, 4.8),
        Gpu("h20", 96, 100, 4.0),
        Gpu("l40s", 48, 145, 0.86),
        Gpu("b200", 180, 900, 8.0),
    )
}
PAPER_GPU = GPUS["a800"]


def gpu_named(name: str) -> Gpu:
    """The type of that name, such as "h100", or with another memory, such as "a100-40".

    Raises:
        UserError: no such type.
    """
    kind, _, memory = name.lower().removesuffix("gb").removesuffix("g").partition("-")
    if kind not in GPUS or not re.fullmatch(r"[0-9]{0,4}", memory) or memory == "0":
        raise UserError(
            f"'{name}' is no GPU type of the plan: give one of {', '.join(GPUS)}, with -MEMORY if it has another than "
            f"the usual, such as a100-40."
        )
    return replace(GPUS[kind], memory=float(memory)) if memory else GPUS[kind]


def gpu_here() -> Gpu | None:
    """The first GPU that nvidia-smi lists on this machine; None without one."""
    try:
        listed = subprocess.run(_NVIDIA_SMI, capture_output=True, text=True, timeout=_ANSWERS_WITHIN_S).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    return gpu_listed(listed)


def assumed_gpu(name: str) -> Gpu:
    """The GPU type of that name; without one this machine's, and the paper's if it has none."""
    return gpu_named(name) if name else gpu_here() or replace(PAPER_GPU, assumed=True)


def gpu_listed(listed: str) -> Gpu | None:
    """The first GPU of nvidia-smi's lines "NAME, MiB"."""
    match = re.match(r"(.+), *([0-9]+)$", listed, re.MULTILINE)
    if not match:
        return None
    memory = float(round(int(match[2]) / 1024))
    words = re.split(r"[^a-z0-9]+", match[1].lower())
    known = next((GPUS[word] for word in words if word in GPUS), Gpu(match[1], memory, None, None))
    # A driver keeps up to 1 % for itself.
    return known if abs(memory - known.memory) <= 0.02 * known.memory else replace(known, memory=memory)
