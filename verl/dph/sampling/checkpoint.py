"""Resolve a model of `evaluate.models` to a folder that a rollout engine can load.

A model is a Hugging Face folder, a checkpoint of verl's trainer (global_step_N, or the actor folder in it), or a
training run, whose newest checkpoint counts. verl's FSDP checkpoints hold one file of shards per rank. Shards without
weights in the Hugging Face format beside them are merged, either once into `huggingface_merged` beside the shards or
temporarily into another folder.
"""

import json
import os
import pickle
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.distributed.tensor import DTensor  # the import also makes sharded tensors known to torch.load
from tqdm import tqdm
from verl.model_merger.base_model_merger import ModelMergerConfig
from verl.model_merger.fsdp_model_merger import FSDPModelMerger, merge_non_dtensor_shards

from rl.common.errors import UserError, file_errors
from rl.common.fingerprint import file_sha256
from rl.common.model_files import UNMERGED, require_weights, tensors_in_files, weight_files
from rl.common.run_lock import sole_run
from rl.data.training_run import NEWEST, newest_checkpoint

SHARDS, SAVED, MERGED = "model_world_size_{world}_rank_{rank}.pt", "huggingface", "huggingface_merged"
MERGED_FROM = "merged_from.json"


def model_folder(model: str, trust_remote_code: bool = False) -> str:
    """The Hugging Face folder of a model.

    Args:
        model: a Hugging Face folder, a verl checkpoint or run folder, or a name of the Hugging Face Hub.
        trust_remote_code: as actor_rollout_ref.model.trust_remote_code.

    Returns:
        A folder with weights and tokenizer; `model` itself if it is not a folder.

    Raises:
        UserError: the folder is not one of these, the checkpoint cannot be read, or another process is merging it.
    """
    folder, checkpoint = _find(model)
    if checkpoint is not None and not _is_merged(checkpoint):
        with sole_run(checkpoint, "copy the checkpoint"):
            hashes = _hashes(checkpoint)
            _merge(checkpoint, Path(folder), trust_remote_code)
            (Path(folder) / MERGED_FROM).write_text(json.dumps(hashes, indent=1) + "\n")
    return folder


def check_model(model: str) -> None:
    """Reject a model with missing files, as `model_folder` would, without merging."""
    _, checkpoint = _find(model)
    if checkpoint is not None:
        _shards(checkpoint)


@contextmanager
def temporary_model_folder(model: str, merged: Path, trust_remote_code: bool) -> Iterator[str]:
    """Like model_folder, but shards that are not merged yet are merged into `merged`, which is removed at the end."""
    folder, checkpoint = _find(model)
    if checkpoint is None or _is_merged(checkpoint):
        yield folder
        return
    try:
        _merge(checkpoint, merged, trust_remote_code)
        yield str(merged)
    finally:
        shutil.rmtree(merged, ignore_errors=True)


def _find(model: str) -> tuple[str, Path | None]:
    """The folder that has, or will have, the model's weights in the Hugging Face format, and the actor folder whose
    shards must be merged for it, or None."""
    folder = Path(model).expanduser()
    if not folder.is_dir():
        return model, None
    if weight_files(folder):
        require_weights(folder)
        _check_merged(folder, tensors_in_files(folder))
        return str(folder), None
    checkpoint = _checkpoint(folder)
    if weight_files(checkpoint / SAVED):
        _check_merged(checkpoint, tensors_in_files(checkpoint / SAVED))
        return str(checkpoint / SAVED), None
    return str(checkpoint / MERGED), checkpoint


def _check_merged(folder: object, names: Iterable[str]) -> None:
    """Reject weights with a LoRA adapter, whose names no model has: transformers would make random weights for them."""
    if any(name.startswith("base_model.") or "lora_" in name for name in names):  # peft's
        raise UserError(UNMERGED.format(folder))


def _checkpoint(folder: Path) -> Path:
    """The actor folder of a checkpoint or run."""
    newest = newest_checkpoint(folder)
    if newest is not None and not newest.is_dir():
        raise UserError(f"{folder / NEWEST} names {newest.name} as the newest checkpoint, but there is no {newest}.")
    folder = newest or folder
    if (folder / "actor").is_dir():
        folder = folder / "actor"
    if (folder / "fsdp_config.json").is_file() or weight_files(folder / SAVED):
        return folder
    raise UserError(
        f"The model folder {folder} holds neither weights in the Hugging Face format nor a checkpoint of verl "
        f"(fsdp_config.json), and is not a run folder ({NEWEST}): name one of these."
    )


def _is_merged(checkpoint: Path) -> bool:
    try:
        # An earlier version recorded the shards alone.
        return json.loads((checkpoint / MERGED / MERGED_FROM).read_text()).items() <= _hashes(checkpoint).items()
    except (OSError, ValueError):
        return False


def _hashes(checkpoint: Path) -> dict[str, str]:
    beside = [file for file in (checkpoint / SAVED).glob("*") if file.is_file()]  # configuration and tokenizer
    return {file.name: file_sha256(file) for file in [*_shards(checkpoint), *beside]}


def _merge(checkpoint: Path, merged: Path, trust_remote_code: bool) -> None:
    """Write the shards' weights into `merged`, whole or not at all."""
    _shards(checkpoint)
    aside = merged.with_name(f"{merged.name}.part")
    shutil.rmtree(aside, ignore_errors=True)
    advice = "make room, or copy the checkpoint to where it can be written"
    try:
        with file_errors(f"The shards of {checkpoint}", f"merged into {merged}", advice):
            aside.mkdir(parents=True)
            _Merger(checkpoint, aside, trust_remote_code).merge_and_save()
            shutil.rmtree(merged, ignore_errors=True)
            os.replace(aside, merged)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _shards(checkpoint: Path) -> list[Path]:
    try:
        world = int(json.loads((checkpoint / "fsdp_config.json").read_text())["world_size"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        path = checkpoint / "fsdp_config.json"
        raise UserError(f"{path} does not say how many ranks wrote the checkpoint: copy it anew.") from error
    shards = [checkpoint / SHARDS.format(world=world, rank=rank) for rank in range(world)]
    missing = [shard.name for shard in shards if not shard.is_file()]
    if missing:
        raise UserError(
            f"{checkpoint} was written by {world} ranks, but {missing[0]} is missing ({len(missing)} of {world}): copy "
            "the whole checkpoint, and save it with 'model' among actor.checkpoint.save_contents."
        )
    return shards


class _Merger(FSDPModelMerger):
    """verl's merger, but only tensors are unpickled, and the weights keep their dtype."""

    def __init__(self, checkpoint: Path, target: Path, trust_remote_code: bool):
        config = ModelMergerConfig(
            operation="merge",
            backend="fsdp",
            local_dir=str(checkpoint),
            target_dir=str(target),
            hf_model_config_path=str(checkpoint / SAVED),
            trust_remote_code=trust_remote_code,
        )
        try:
            super().__init__(config)
        except (OSError, ValueError) as error:
            raise UserError(f"{checkpoint / SAVED} has no model configuration: copy the whole checkpoint.") from error

    def _load_rank_zero_state_dict(self, world_size: int) -> dict[str, torch.Tensor]:
        state = self._load(world_size, 0)
        _check_merged(self.config.local_dir, state)
        return state

    def _load_and_merge_state_dicts(
        self, world_size: int, total_shards: int, mesh_shape: tuple[int, ...], mesh_dim_names: tuple[str, ...]
    ) -> dict[str, torch.Tensor]:
        """{name: whole tensor}, from ranks that together hold one copy of the model (all ranks, without replicas)."""
        ranks = tqdm(range(total_shards), desc="Reading shards", unit="rank", delay=5)
        states = [self._load(world_size, rank) for rank in ranks]
        return {
            name: self._whole(name, [state[name] for state in states])
            for name in tqdm(sorted(states[0]), desc="Joining shards", unit="tensor", delay=5)
        }

    def _whole(self, name: str, parts: list[torch.Tensor]) -> torch.Tensor:
        if not isinstance(parts[0], DTensor):
            return merge_non_dtensor_shards(name, parts)
        # Only the last dimension of a mesh shards; the ones before it replicate.
        return self._merge_by_placement([part.to_local() for part in parts], parts[0].placements[-1])

    def _load(self, world_size: int, rank: int) -> dict[str, torch.Tensor]:
        path = Path(self.config.local_dir) / SHARDS.format(world=world_size, rank=rank)
        try:
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except (pickle.UnpicklingError, RuntimeError) as error:
            raise UserError(
                f"{path} cannot be read without running code from it ({str(error).splitlines()[0]}): checkpoints of "
                "FSDP2 can; convert others with `python -m verl.model_merger`, where you trust them."
            ) from error
