"""Room for checkpoints: compared before a run starts, and a disk that is full while one is written."""

import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omegaconf import DictConfig

from rl.common.errors import UserError
from verl.dph.training.model_checks import config_json

# Bytes per parameter of what a checkpoint holds (actor.checkpoint.save_contents): float32 weights, Adam's two moments.
CONTENT_BYTES = {"model": 4, "optimizer": 8, "hf_model": 4}
# How torch and the system say that a file could not be written: torch's writer hides the error of the disk, and fails
# where it looks for the position in the file.
_FULL = ("unexpected pos", "file write failed", "No space left", "Disk quota exceeded", "File too large")
_ADVICE = "make room, set KEEP_CHECKPOINTS to keep fewer, or OUTPUT_DIR to a larger disk"


def check_room(config: DictConfig, resumed: Path | None) -> str:
    """Reject a run whose checkpoints do not fit on the disk of its folder.

    Args:
        resumed: the checkpoint that the run continues, or None.

    Returns:
        What a checkpoint takes and what is free, in words; "" if the run writes none.

    Raises:
        UserError: the folder cannot be written, or has too little room.
    """
    if config.actor_rollout_ref.actor.generate_sft or config.trainer.save_freq <= 0:
        return ""
    folder = Path(config.trainer.default_local_dir)
    existing = next(path for path in [folder, *folder.absolute().parents] if path.exists())
    if not os.access(existing, os.W_OK):
        raise UserError(f"{existing} cannot be written: make it writable, or set OUTPUT_DIR.")
    per_parameter = sum(CONTENT_BYTES.get(part, 0) for part in config.actor_rollout_ref.actor.checkpoint.save_contents)
    # On several nodes, which may have a disk each, the least that this one has to hold.
    size = per_parameter * parameters(config) / config.trainer.nnodes
    free = shutil.disk_usage(existing).free
    kept = config.trainer.get("max_actor_ckpt_to_keep")
    found = f"a checkpoint takes about {in_bytes(size)}, {in_bytes(free)} are free in {existing}"
    # A new one is written before the oldest is removed.
    needed = (kept or 0) + 1 if resumed is None else 1
    if free < size * needed:
        times = f", and {needed} lie there at a time" if needed > 1 else ""
        raise UserError(f"The checkpoints do not fit: {found}{times}; {_ADVICE}.")
    return found if kept else f"{found}; all are kept (KEEP_CHECKPOINTS)"


def parameters(config: DictConfig) -> int:
    """Of the model that config.json describes."""
    import torch
    from transformers import AutoModelForCausalLM

    model = config.actor_rollout_ref.model
    with torch.device("meta"):
        shape = AutoModelForCausalLM.from_config(config_json(model), trust_remote_code=model.trust_remote_code)
    return sum(math.prod(parameter.shape) for parameter in shape.parameters())


def in_bytes(count: float) -> str:
    """2.5e9 -> "2.5 GB"."""
    return f"{count / 1e9:.3g} GB" if count >= 1e9 else f"{count / 1e6:.3g} MB"


@contextmanager
def full_disk_explained(folder: Path, last: Path | None) -> Iterator[None]:
    """Turn the error of a disk that is full into a sentence, and remove the half of a checkpoint that was written.

    Args:
        folder: global_step_N, which the block writes.
        last: the newest whole checkpoint, from which the run resumes, or None.

    Raises:
        UserError: the block could not write the checkpoint.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:  # those of Ray's workers are both a RayError and one of these
        if not any(sign in str(error) for sign in _FULL):
            raise
        free = in_bytes(shutil.disk_usage(folder.parent).free)
        if last != folder:
            shutil.rmtree(folder, ignore_errors=True)
        resumes = f"resumes from {last.name}" if last is not None else "starts anew"
        raise UserError(
            f"The checkpoint {folder} cannot be written, its disk is full ({free} were free): {_ADVICE}; the same "
            f"command then {resumes}."
        ) from error
