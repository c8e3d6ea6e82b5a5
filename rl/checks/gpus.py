"""GPU types: their memory, and the speeds that a plan assumes.

A type's memory is the number on its label, and a plan counts 1e9 bytes as a GB. The label means GiB; the difference of
7 % is left to the allocator's fragmentation.
"""

import re
from dataclasses import dataclass, replace

from rl.checks.finding import Unknown
from rl.checks.machine import Gpu, visible_gpus
from rl.common.errors import UserError


@dataclass(frozen=True)
class GpuType:
    """A GPU type.

    Attributes:
        name: as in --gpu.
        memory: GB, as on the label.
        tflops: bf16 TFLOP/s that training is assumed to reach: about 0.45 of the dense peak on Ampere, 0.4 on Hopper
            and later (h20, whose peak is low: 0.7). None: the type is unknown, and the plan has no times.
        bandwidth: TB/s of its memory, from the data sheet.
        assumed: the type was not given, and this machine has no GPU.
    """

    name: str
    memory: float
    tflops: float | None
    bandwidth: float | None
    assumed: bool = False


GPU_TYPES = {
    gpu.name: gpu
    for gpu in (
        GpuType("a100", 80, 140, 2.0),
        GpuType("a800", 80, 140, 2.0),
        GpuType("h100", 80, 400, 3.35),
        GpuType("h800", 80, 400, 3.35),
        GpuType("h200", 141, 400, 4.8),
        GpuType("h20", 96, 100, 4.0),
        GpuType("l40s", 48, 145, 0.86),
        GpuType("b200", 180, 900, 8.0),
    )
}
_OF_THE_PAPER = replace(GPU_TYPES["a800"], assumed=True)


def gpu_type(name: str) -> GpuType:
    """A type such as "h100", or with another memory, such as "a100-40"; "": this machine's, else the paper's.

    Raises:
        UserError: there is no such type.
    """
    if not name:
        try:
            gpus = visible_gpus()
        except Unknown:
            gpus = []
        return type_of(gpus[0]) if gpus else _OF_THE_PAPER
    kind, _, memory = name.lower().removesuffix("gb").removesuffix("g").partition("-")
    if kind not in GPU_TYPES or not re.fullmatch(r"[0-9]{0,4}", memory) or memory == "0":
        raise UserError(
            f"'{name}' is not a known GPU type: give one of {', '.join(GPU_TYPES)}; add its memory if that is unusual, "
            "as in a100-40."
        )
    return replace(GPU_TYPES[kind], memory=float(memory)) if memory else GPU_TYPES[kind]


def type_of(gpu: Gpu) -> GpuType:
    """The type of a GPU by its name; a type of unknown speed if the name is unknown."""
    memory = float(round(gpu.memory / 1024))
    words = re.split(r"[^a-z0-9]+", gpu.name.lower())
    known = next((GPU_TYPES[word] for word in words if word in GPU_TYPES), GpuType(gpu.name, memory, None, None))
    # A driver keeps up to 1 % for itself.
    return known if abs(memory - known.memory) <= 0.02 * known.memory else replace(known, memory=memory)
