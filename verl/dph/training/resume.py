"""The checkpoint that a run continues, checked before Ray starts."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from rl.checks.files import files_of
from rl.common.errors import UserError
from rl.common.fingerprint import file_sha256, model_hashes, short
from rl.configuration.may_change import MAY_CHANGE, among
from rl.configuration.nesting import flat
from rl.data.training_run import (
    MANIFEST,
    NEWEST,
    VERDICT,
    checkpoint_folder,
    newest_checkpoint,
    read_manifest,
    read_record,
    step_of,
)
from verl.dph.divergence.eta_schedule import SPAN_THE_RUN
from verl.dph.sampling.rollout_engine import RANKS, ranks_of
from verl.dph.training.config import has_critic

logger = logging.getLogger(__name__)

# verl's policy losses that choose their tokens in every micro-batch, so that its size changes the gradient.
CHOOSE_IN_MICRO_BATCHES = ("kl_cov", "clip_cov")

# What to give instead of taking another run's folder.
OTHER_NAME = "this run another name (NAME in the scripts, trainer.default_local_dir)"

_SHOWN = 8  # changes in one message

# The parts of a checkpoint that a run goes on with, and their files (verl/utils/checkpoint/fsdp_checkpoint_manager.py).
_PARTS = {"model": "model_*.pt", "optimizer": "optim_*.pt", "extra": "extra_state_*.pt"}


def checkpoint_of(config: DictConfig) -> Path | None:
    """The folder global_step_N that verl will load (trainer_base.py, _load_checkpoint); None: the run starts anew.

    Raises:
        UserError: the named folder does not exist, or the file that names the newest one: verl would start anew or end
            with a traceback.
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
    if folder is None:
        saved = (read_record(run) or {}).get("checkpoints", [])
        there = [step for step in saved if (checkpoint_folder(run, step) / "actor").is_dir()]
        if there:
            raise UserError(
                f"{run} has checkpoints and no file {NEWEST}: write {there[-1]} into it to continue there, or give "
                "this run another name."
            )
    elif not (folder / "actor").is_dir():
        raise UserError(
            f"{folder.with_name(NEWEST)} names {folder.name} as the newest checkpoint, and {folder}/actor does not "
            "exist: restore it, write the step of another checkpoint into the file, or give this run another name."
        )
    return folder


def check(config: DictConfig, folder: Path) -> None:
    """Reject a checkpoint that the trainer's ranks cannot load, or that was trained with other settings or data.

    Args:
        folder: global_step_N.

    Raises:
        UserError: naming both values of what differs.
    """
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

    Raises:
        UserError: naming both values.
    """
    before = dict(flat((read_manifest(folder) or {}).get("settings", {}))).get(VERDICT)
    if before and found and before != found:
        reject(config, folder, [f"the scorer's rules (verdict_sha256) were {short(before)} and are {short(found)}"])


def check_parts(config: DictConfig, folder: Path) -> None:
    """Reject a checkpoint that lacks a part, or whose parts would not all be loaded.

    Without one in load_contents verl would go on with the initial weights, or with new moments, learning rate and
    random numbers; a missing file ends it once Ray has started.

    Args:
        folder: global_step_N, from which the run goes on.

    Raises:
        UserError: naming the part.
    """
    ranks, not_loaded = ranks_of(config), []
    critic = {"critic": config.critic} if has_critic(config) else {}
    for role, settings in ({"actor": config.actor_rollout_ref.actor} | critic).items():
        parts = _PARTS if settings.strategy in ("fsdp", "fsdp2") else {}
        for part, files in parts.items():
            there = len([*(folder / role).glob(files)])
            if part not in settings.checkpoint.load_contents:
                if part == "model" or not config.trainer.val_only:
                    not_loaded.append(f"{role}.checkpoint.load_contents lacks {part}, which would begin anew")
            elif there < ranks:
                raise UserError(
                    f"{folder / role} has {there} files {files}, and {ranks} ranks load one each: it was saved without "
                    f"{part} ({role}.checkpoint.save_contents) or has lost files. Name another checkpoint in "
                    "trainer.resume_from_path, or give this run another name."
                )
    if not_loaded:
        reject(config, folder, not_loaded)


def check_unused(folder: Path, resumed: Path | None = None) -> None:
    """Reject a folder with checkpoints for another run: reports and evaluations would mix the two.

    Args:
        resumed: the checkpoint, in another folder, from which the run starts.

    Raises:
        UserError: naming a checkpoint.
    """
    if found := [path.name for path in sorted(folder.glob("global_step_*"), key=lambda path: step_of(path) or 0)]:
        starts = f"go on from {resumed}" if resumed else "start anew"
        raise UserError(
            f"This run would {starts} in {folder}, which has {found[-1]} of another run: delete or move the folder, or "
            f"give {OTHER_NAME}." + (f" To go on from {found[-1]}, set trainer.resume_mode=auto." if resumed else "")
        )


def check_no_later(folder: Path) -> None:
    """Reject a checkpoint of the run's own folder before others: interrupted before its first save, the run would go on
    from the latest one.

    Args:
        folder: global_step_N, which trainer.resume_from_path names.

    Raises:
        UserError: naming the latest checkpoint.
    """
    step, newest = step_of(folder) or 0, newest_checkpoint(folder.parent)
    if newest is not None and newest.is_dir() and (step_of(newest) or 0) > step:
        raise UserError(
            f"This run would go on from trainer.resume_from_path={folder}, and {folder.with_name(NEWEST)} names "
            f"{newest.name}: write {step} into it and delete or move the later checkpoints, or give {OTHER_NAME}."
        )


def reject(config: DictConfig, folder: Path, changes: list[str]) -> None:
    """Reject a checkpoint that was trained otherwise; with trainer.resume_with_changes=True only warn.

    Args:
        folder: global_step_N.
        changes: each in words, with both values.

    Raises:
        UserError: naming them.
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
            f"({RANKS}): use {written} (GPUS_PER_NODE in the scripts), or start "
            "another run from its merged weights (python -m verl.model_merger merge --backend fsdp)."
        )


def _other_files(config: DictConfig, manifest: dict) -> Iterator[str]:
    """The model and the training prompts, by content."""
    model = config.actor_rollout_ref.model
    for name, value in model_hashes(model.path, model.tokenizer_path).items():
        if manifest["model"][name] != value:
            what = name.removesuffix("_hash")
            yield f"the {what} was {short(manifest['model'][name])} and is {short(value)} ({model.path})"
    paths, before = files_of(config.data.train_files), files_of(manifest["settings"]["data"]["train_files"])
    # In order: the checkpoint has the place in the epoch, among the rows of all files one after the other.
    hashes_before = [manifest["data"]["train_files"].get(str(path)) for path in before]
    if hashes_before != [file_sha256(path) for path in paths]:
        was, now = (", ".join(map(str, files)) for files in (before, paths))
        yield f"data.train_files was {was} and is {now}, with other contents or in another order"


def _other_settings(config: DictConfig, before: dict) -> Iterator[str]:
    """The settings that differ and must not; one that only one of the two runs has is null in the other."""
    now, fixed = dict(flat(OmegaConf.to_container(config, resolve=True))), _fixed_by_others(config)
    trained_with = dict(flat(before))
    for key in sorted(now.keys() | trained_with.keys() - {VERDICT}):  # check_verdict compares it
        was, value = trained_with.get(key), now.get(key)
        differs = was != value and not (was in (None, {}) and value in (None, {}))  # an empty section counts as null
        if differs and (among(fixed, key) or not among(MAY_CHANGE, key)):
            yield f"{key} was {was} and is {value}"


def _fixed_by_others(config: DictConfig) -> tuple[str, ...]:
    """Settings of MAY_CHANGE that another setting fixes: the steps that a schedule spans, the size of micro-batches in
    which a policy loss chooses its tokens, and the storage that an asynchronous trainer's checkpoint fills again."""
    actor = config.actor_rollout_ref.actor
    fixed: tuple[str, ...] = ()
    spans = actor.optim.lr_scheduler_type != "constant" or actor.optim.lr_warmup_steps_ratio > 0
    if config.algorithm.adv_estimator == "gae":
        critic = config.critic.optim
        spans |= critic.lr_scheduler_type != "constant" or critic.lr_warmup_steps_ratio > 0
    if spans or actor.sft_loss_control.type in SPAN_THE_RUN:
        fixed += ("trainer.total_epochs", "trainer.total_training_steps")
    if actor.policy_loss.loss_mode in CHOOSE_IN_MICRO_BATCHES:
        sizes = ["ppo_micro_batch_size*", "ppo_max_token_len_per_gpu", "use_dynamic_bsz"]
        sizes += ["*ulysses_sequence_parallel_size"]
        fixed += tuple(f"actor_rollout_ref.actor.{size}" for size in sizes)
    if config.trainer.v1.trainer_mode != "sync":
        fixed += ("transfer_queue.backend.storage_backend", "transfer_queue.backend.SimpleStorage.*")
    return fixed
