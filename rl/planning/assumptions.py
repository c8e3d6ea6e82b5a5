"""What a plan takes for granted where the run's settings leave it open: the GPU type and the attention."""

from importlib.util import find_spec
from shutil import which

from rl.common.errors import UserError
from rl.planning.gpus import PAPER_GPU, Gpu, gpu_here, gpu_named
from rl.planning.plan import FLASH, SDPA


def assumed_gpu(name: str) -> Gpu:
    """The GPU type of that name; without one this machine's, and the paper's if it has none."""
    return gpu_named(name) if name else gpu_here() or PAPER_GPU


def assumed_attention(implementation: str) -> str:
    """FLASH or SDPA.

    Args:
        implementation: transformers' name in the run's settings. "": what this Python can import, on a machine with
            GPUs; elsewhere flash attention, which requirements.txt is for.
    """
    if "flash" in implementation:
        return FLASH
    if implementation not in ("", "sdpa"):
        raise UserError(f"attn_implementation={implementation} is not modelled, only flash attention and sdpa.")
    has_flash = not which("nvidia-smi") or find_spec("flash_attn") or find_spec("kernels")
    return FLASH if has_flash and not implementation else SDPA
