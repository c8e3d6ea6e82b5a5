"""Disk space for checkpoints: a check before a run starts, and a clear error if the disk is full later."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omegaconf import DictConfig

from rl.checks.finding import Finding, ok, skipped
from rl.common.cli import existing_part
from rl.common.errors import UserError
from rl.common.model_files import parameters_in_files
from rl.common.text import in_bytes

# Bytes per parameter of what a checkpoint can hold (actor.checkpoint.save_contents; verl/utils/checkpoint/
# checkpoint_manager.py): float32 weights, Adam's two moments.
CONTENT_BYTES = {"model": 4, "optimizer": 8, "extra": 0, "hf_model": 4}
# What torch and the system say when a file cannot be written. torch's writer hides the disk's error, and fails when it
# checks its position in the file.
_FULL = ("unexpected pos", "file write failed", "No space left", "Disk quota exceeded", "File too large")
_ADVICE = "make room, set trainer.max_actor_ckpt_to_keep to keep fewer, or OUTPUT_DIR to a larger disk"


def check_room(config: DictConfig, has_critic: bool, resumes: bool) -> Finding:
    """Reject a training run whose checkpoints do not fit on the disk of its folder.

    Args:
        has_critic: the run trains a critic, whose checkpoints are about as large as the actor's.
        resumes: the run continues from a checkpoint, so that some may be in its folder already.
    """
    trainer, actor = config.trainer, config.actor_rollout_ref.actor
    if trainer.save_freq <= 0:
        return skipped("this run writes no checkpoints")
    folder = Path(trainer.default_local_dir)
    existing = existing_part(folder)
    if not os.access(existing, os.W_OK):
        raise UserError(f"{existing} cannot be written: make it writable, or set OUTPUT_DIR.")
    count = parameters_in_files(str(config.actor_rollout_ref.model.path))
    if not count:
        return skipped("the size of a checkpoint is not known: the model has no safetensors files here")
    # Of all nodes: they share the folder (docs/howto/cluster.md).
    roles = [actor, *[config.critic] * has_critic]
    size = count * sum(CONTENT_BYTES[part] for role in roles for part in role.checkpoint.save_contents)
    free = shutil.disk_usage(existing).free
    kept = trainer.get("max_actor_ckpt_to_keep")
    found = f"a checkpoint takes about {in_bytes(size)}, {in_bytes(free)} are free in {existing}"
    # verl removes the oldest before it writes another one, but never the only one, and none from before a resume
    # (ensure_checkpoint_capacity), which go after the write (delete_older of verl/dph/training/run_record.py).
    there = len([*folder.glob("global_step_*/actor")]) if resumes else 0
    needed = (max(kept + 1 - there, 1) if there else max(kept, 2)) if kept else 1
    if free < size * needed:
        times = f", and {needed} are there at a time" if needed > 1 else ""
        raise UserError(f"The checkpoints do not fit: {found}{times}; {_ADVICE}.")
    return ok(found if kept else f"{found}; all are kept (trainer.max_actor_ckpt_to_keep)")


@contextmanager
def full_disk_explained(folder: Path, last: Path | None) -> Iterator[None]:
    """Turn the error of a full disk into a sentence, and remove the unfinished checkpoint.

    Args:
        folder: global_step_N, which the block writes.
        last: the newest whole checkpoint, from which the run resumes, or None.
    """
    try:
        yield
    except (OSError, RuntimeError, UserError) as error:  # an error of a Ray worker is a RayError and one of these
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
