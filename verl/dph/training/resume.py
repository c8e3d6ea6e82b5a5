"""The checkpoint that a run continues, checked before Ray starts."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from rl.checks.files import files_of
from rl.common.errors import UserError
from rl.common.fingerprint import file_sha256, model_hashes, short
from rl.configuration import ACTOR
from rl.configuration.may_change import MAY_CHANGE, MICRO_BATCHES, among
from rl.configuration.variables import flat
from rl.data.training_run import (
    MANIFEST,
    NEWEST,
    VERDICT,
    newest_checkpoint,
    read_manifest,
    step_of,
)
from verl.dph.sampling.rollout_engine import RANKS, ranks_of
from verl.dph.training.config import has_critic

logger = logging.getLogger(__name__)

# What to give instead of taking another run's folder.
OTHER_NAME = "this run another name (NAME in the scripts, trainer.default_local_dir)"

_SHOWN = 8  # changes in one message

# verl's policy losses that choose tokens within a micro-batch, so that its size must stay.
_CHOOSE_WITHIN = ("kl_cov", "clip_cov")

# Stores whose files may be elsewhere, and which a run that rehearses has or has not.
_STORES = ("data.sft_pt", "data.sft_anchor_pt")

# The parts of a checkpoint that a run goes on with (verl/utils/checkpoint/fsdp_checkpoint_manager.py).
_PARTS = ("model", "optimizer", "extra")


def checkpoint_of(config: DictConfig) -> Path | None:
    """The folder global_step_N that verl will load (trainer_base.py, _load_checkpoint); None: the run starts anew.

    Raises:
        UserError: the named folder does not exist, or the newest one has no weights.
    """
    trainer = config.trainer
    if trainer.resume_mode == "disable":
        return None
    if trainer.resume_mode == "resume_path":
        named = str(trainer.resume_from_path)
        if not re.search(r"(^|/)global_step_\d+$", named) or not Path(named).is_dir():
            raise UserError(
                f"trainer.resume_from_path={named} is not a folder global_step_N of a run: name one, or set "
                "trainer.resume_mode=auto."
            )
        return Path(named)
    run = Path(trainer.default_local_dir)
    folder = newest_checkpoint(run)
    if folder is not None and not (folder / "actor").is_dir():
        raise UserError(
            f"{folder.with_name(NEWEST)} names {folder.name} as the newest checkpoint, and {folder}/actor does not "
            "exist: restore it, write the step of another checkpoint into the file, or give this run another name."
        )
    return folder


def check(config: DictConfig, folder: Path) -> None:
    """Reject a checkpoint, global_step_N, that the trainer's ranks cannot load, or of other settings or data."""
    _check_ranks(config, folder)
    manifest = read_manifest(folder)
    if manifest is None:
        logger.warning(
            "%s is missing, so whether the checkpoint was trained with this run's settings is unknown",
            folder / MANIFEST,
        )
        return
    changes = [*_other_files(config, manifest), *_other_settings(config, manifest["settings"])]
    if changes:
        reject(config, folder, changes)


def check_verdict(config: DictConfig, folder: Path, found: str) -> None:
    """Reject a checkpoint whose rewards came from a scorer with other rules.

    Args:
        folder: global_step_N.
        found: what decides the verdicts now; "" if no server says it.
    """
    before = dict(flat((read_manifest(folder) or {}).get("settings", {}))).get(VERDICT)
    if before and found and before != found:
        reject(config, folder, [f"the scorer's rules (verdict_sha256) were {short(before)} and are {short(found)}"])


def check_parts(config: DictConfig, folder: Path) -> None:
    """Reject a run that would not load all parts of its checkpoint, global_step_N.

    verl would go on with the initial weights, new moments, learning rate and random numbers, or the first prompts.
    """
    roles = {"actor": config.actor_rollout_ref.actor} | ({"critic": config.critic} if has_critic(config) else {})
    not_loaded = [
        f"{role}.checkpoint.load_contents lacks {part}, which would begin anew"
        for role, settings in roles.items()
        for part in _PARTS
        if part not in settings.checkpoint.load_contents and (part == "model" or not config.trainer.val_only)
    ]
    if not (folder / "data.pt").is_file() and not config.trainer.val_only:  # its save or a copy was interrupted
        not_loaded.append("it has no data.pt, so that the prompts would begin anew")
    if not_loaded:
        reject(config, folder, not_loaded)


def check_unused(folder: Path, resumed: Path | None = None) -> None:
    """Reject a folder with checkpoints for another run: reports and evaluations would mix the two.

    Args:
        resumed: the checkpoint, in another folder, from which the run starts.
    """
    if found := [path.name for path in sorted(folder.glob("global_step_*"), key=lambda path: step_of(path) or 0)]:
        starts = f"go on from {resumed}" if resumed else "start anew"
        raise UserError(
            f"This run would {starts} in {folder}, which has {found[-1]} of another run: delete or move the folder, or "
            f"give {OTHER_NAME}." + (f" To go on from {found[-1]}, set trainer.resume_mode=auto." if resumed else "")
        )


def reject(config: DictConfig, folder: Path, changes: list[str]) -> None:
    """Reject a checkpoint that was trained otherwise; with trainer.resume_with_changes=True only warn.

    Args:
        folder: global_step_N.
        changes: each in words, with both values.
    """
    listed = "; ".join(changes[:_SHOWN]) + (f"; and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else "")
    if config.trainer.resume_with_changes:
        logger.warning("%s continues with changes: %s", folder, listed)
        return
    raise UserError(
        f"{folder} was trained with other settings, and this run would continue it: {listed}. Give {OTHER_NAME}, go "
        "back to those settings, or continue with these by trainer.resume_with_changes=True."
    )


def _check_ranks(config: DictConfig, folder: Path) -> None:
    """verl's checkpoints hold a file of weights per rank, and only the same number of ranks can load them."""
    ranks = ranks_of(config)
    names = (re.match(r"model_world_size_(\d+)_rank_", file.name) for file in (folder / "actor").glob("model_*.pt"))
    sizes = {int(name[1]) for name in names if name}
    if sizes and ranks not in sizes:
        written = " or ".join(map(str, sorted(sizes)))
        raise UserError(
            f"{folder} was written by {written} ranks and only as many can load it, but this run has {ranks} "
            f"({RANKS}): use {written} (GPUS_PER_NODE in the scripts), or start another run from it (dph export)."
        )


def _other_files(config: DictConfig, manifest: dict) -> Iterator[str]:
    """The model and the training prompts, by content."""
    model = config.actor_rollout_ref.model
    for name, value in model_hashes(model.path, model.tokenizer_path).items():
        if (was := manifest["model"].get(name, value)) != value:  # older manifests have no config_hash
            yield f"the {name.removesuffix('_hash')} was {short(was)} and is {short(value)} ({model.path})"
    paths, before = files_of(config.data.train_files), files_of(manifest["settings"]["data"]["train_files"])
    # In order: the checkpoint has the place in the epoch, among the rows of all files one after the other.
    hashes_before = [manifest["data"]["train_files"].get(str(path)) for path in before]
    if hashes_before != [file_sha256(path) for path in paths]:
        was, now = (", ".join(map(str, files)) for files in (before, paths))
        yield f"data.train_files was {was} and is {now}, with other contents or in another order"


def _other_settings(config: DictConfig, before: dict) -> Iterator[str]:
    """The settings that differ and must not; one that only one of the two runs has is null in the other."""
    now = dict(flat(OmegaConf.to_container(config, resolve=True)))
    trained_with = dict(flat(before))
    fixed = MICRO_BATCHES if now[f"{ACTOR}.policy_loss.loss_mode"] in _CHOOSE_WITHIN else ()
    stores = _STORES if trained_with.get(f"{ACTOR}.sft_loss_mode", "none") != "none" else ()
    for key in sorted(now.keys() | trained_with.keys() - {VERDICT}):  # check_verdict compares it
        was, value = trained_with.get(key), now.get(key)
        differs = was != value and not (was in (None, {}) and value in (None, {}))  # an empty section counts as null
        may_change = among(MAY_CHANGE, key) and not (key.startswith(f"{ACTOR}.") and among(fixed, key))
        if differs and (not may_change or (key in stores and None in (was, value))):
            yield f"{key} was {was} and is {value}"
