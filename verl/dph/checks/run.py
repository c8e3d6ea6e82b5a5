"""Everything that is checked before a program starts Ray: the list of rl/checks/run.py, then the one of this file.

main, presample and evaluate call `check`, which stops at the first failure. `dph doctor` shows `findings`, all of them.
"""

import asyncio
import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Collection, Iterator
from functools import cached_property, partial
from itertools import chain
from pathlib import Path

import pyarrow.parquet as pq
from hydra.errors import InstantiationException
from omegaconf import DictConfig, OmegaConf, open_dict
from verl.trainer.ppo.utils import need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config
from verl.utils.device import auto_set_device

from rl.checks import run as without_verl
from rl.checks.disk import check_room
from rl.checks.files import asks_scorer, check_model, files_of, prompt_settings
from rl.checks.finding import Check, Finding, enforce, look_at, ok, print_all, skipped
from rl.common.errors import UserError
from rl.common.fingerprint import model_hash
from rl.configuration.names import EVALUATE, GREEDY_TEMPERATURE, MAIN, PRESAMPLE
from rl.data.rows import SAMPLES, Row, iterate_rows, read_rows
from rl.data.training_run import VERDICT, step_of
from verl.dph.checks import model, rules, scorer, store
from verl.dph.config.program import run_main
from verl.dph.pef.refinement import explored_files
from verl.dph.pef.row_sources import check_rows_to_write
from verl.dph.reward.settings import scorer_settings
from verl.dph.sampling.job import tokenized_prompts
from verl.dph.sampling.rollout_engine import check_rollout
from verl.dph.training import resume
from verl.dph.training.config import has_critic, rehearses
from verl.dph.training.run_record import RunRecord

logger = logging.getLogger(__name__)

SHORT_WAIT_S = 5.0  # of dph doctor for the scorer; a run waits longer
OTHER_STORE = "name another file in data.sft_pt (SFT_PT in the scripts)"
FINISHED = "This run is finished: to go on, raise trainer.total_training_steps or trainer.total_epochs."


class Finished(UserError):
    """The run has no step left to train; the text is its summary."""


class Subject(without_verl.Subject):
    """A run and what its checks read, once.

    Attributes:
        scorer_wait_s: seconds to wait for the scorer; None: as long as a run waits.
    """

    scorer_wait_s: float | None = None

    @property
    def writes_store(self) -> bool:
        return self.program == MAIN and self.config.actor_rollout_ref.actor.generate_sft

    @property
    def folder(self) -> Path:
        """The folder of a run of verl.dph.main."""
        return Path(self.config.trainer.default_local_dir)

    @property
    def instead(self) -> str:
        """What to do while another run is in the folder."""
        return OTHER_STORE if self.writes_store else f"give {resume.OTHER_NAME}"

    @cached_property
    def resumed(self) -> Path | None:
        """The checkpoint that the run continues."""
        found = resume.checkpoint_of(self.config)
        if found is not None:
            resume.check(self.config, found)
        return found

    @cached_property
    def rows(self) -> list[Row]:
        """The rows of the prompts, each of them checked."""
        if self.program == MAIN:
            return _rows(self.config)
        return read_rows(files_of(self.config.data.train_files))


def check(config: DictConfig, program: str, without: Collection[str] = ()) -> Subject:
    """Reject what cannot work, and complete the settings of a training run.

    Args:
        program: the module, such as "verl.dph.main".
        without: names of checks to leave out, because the program makes them itself or does not need them.
    """
    subject = Subject(config, program)
    without_verl.check(config, program, without)
    enforce(CHECKS[program], subject, without)
    return subject


def findings(config: DictConfig, program: str, scorer_wait_s: float) -> Iterator[tuple[str, Finding]]:
    """The name and finding of every check, as soon as it ends; a failed check does not stop the others."""
    subject = Subject(config, program)
    subject.scorer_wait_s = scorer_wait_s
    yield from look_at([*without_verl.CHECKS, *CHECKS[program]], subject)


def _print_findings(program: str, config: DictConfig) -> None:
    print_all(findings(config, program, SHORT_WAIT_S))


def rules_of_training(subject: Subject) -> Finding:
    """The rules between settings (rules.py). Also sets what the user leaves to the program."""
    config = subject.config
    _complete(config)
    rules.check(config)
    if subject.writes_store:
        # A checkpoint must not replace the initial policy. The log is written beside the store, not in ./checkpoints,
        # verl's default.
        config.trainer.resume_mode = "disable"
        config.trainer.default_local_dir = str(Path(config.data.sft_pt).expanduser().with_suffix(".run"))
    return ok("no two settings contradict each other")


def _complete(config: DictConfig) -> None:
    for key in ("sft_files", "sft_pt", "sft_wrong_files"):
        if config.data[key] == "None":  # as in the paper's README
            config.data[key] = None
    config.trainer.default_local_dir = os.path.expanduser(config.trainer.default_local_dir)  # verl makes a folder "~"
    if config.actor_rollout_ref.actor.generate_sft:
        return
    explored = explored_files(config.data)
    if len(explored) > len(files_of(config.data.train_files)):
        config.data.train_files = explored
    if not config.data.val_files:
        if config.trainer.val_only:
            raise UserError(
                "trainer.val_only=True validates, and data.val_files is not set: name the files (VAL_FILES in the "
                "scripts), or leave val_only out."
            )
        # verl loads a validation file even when it does not validate.
        config.data.val_files = config.data.train_files
        config.trainer.update(test_freq=-1, val_before_train=False)
        logger.info("There are no data.val_files: no validation.")
    if config.trainer.val_only:  # verl reads it after a validation before training, and without one it trains
        config.trainer.val_before_train = True


def rules_of_sampling(subject: Subject) -> Finding:
    config = subject.config
    check_rollout(config)
    for violation in chain(rules.samples(config), model.sampled_as_trained(config)):
        raise UserError(violation)
    if subject.program == PRESAMPLE:
        check_model("actor_rollout_ref.model.path", str(config.actor_rollout_ref.model.path))
        for violation in model.context(config):
            raise UserError(violation)
    rollout = config.actor_rollout_ref.rollout
    if subject.program == PRESAMPLE and rollout.temperature <= GREEDY_TEMPERATURE and config.presample.n > 1:
        raise UserError(
            f"actor_rollout_ref.rollout.temperature={rollout.temperature:g} gives the same response "
            f"{config.presample.n} times: set presample.n=1."
        )
    return ok(f"the rollout engine {rollout.name} can be used")


def tokenizer(subject: Subject) -> Finding:
    return model.check_tokenizer(subject.config)


def checkpoint(subject: Subject) -> Finding:
    """The checkpoint that the run continues belongs to it."""
    resumed = subject.resumed
    if resumed is None:
        if subject.config.trainer.resume_mode == "disable" and not subject.writes_store:
            resume.check_unused(subject.folder)
        return ok("starts at step 0")
    if resumed.parent.resolve() != subject.folder.resolve():
        resume.check_unused(subject.folder, resumed)
    record = RunRecord.load(subject.folder)
    if record.is_finished(subject.config, step_of(resumed) or 0):
        raise Finished(f"{FINISHED}\n{record.summary(subject.config)}")
    resume.check_parts(subject.config, resumed)
    return ok(f"resumes from {resumed.name}")


def disk(subject: Subject) -> Finding:
    """The next checkpoints fit on the disk."""
    if subject.writes_store:
        return skipped("this run writes no checkpoints")
    return check_room(subject.config, has_critic(subject.config), resumes=subject.resumed is not None)


def prompts(subject: Subject) -> Finding:
    return ok(f"{len({row.origin for row in subject.rows}):,} prompts")  # validation may be of the same file


def lengths(subject: Subject) -> Finding:
    """No prompt is longer than data.max_prompt_length, or those that are may be left out, and fill a batch without."""
    if subject.writes_store:  # the check of the store counts its prompts' tokens
        return skipped("nothing is trained")
    found, data = _check_lengths(subject.config), subject.config.data
    if (left := min(found, data.train_max_samples if data.train_max_samples > 0 else found)) < data.train_batch_size:
        raise UserError(
            f"{left} prompts of data.train_files are left by data.filter_overlong_prompts and data.train_max_samples, "
            f"and a step needs data.train_batch_size={data.train_batch_size}: lower it, or leave fewer out."
        )
    return ok(f"{found:,} prompts are short enough to be trained on")


def pef_store(subject: Subject) -> Finding:
    """The store that the run reads belongs to it; the store that it writes can be written."""
    config = subject.config
    if subject.writes_store:
        store.check_split(
            config.data, ("sft_files", "sft_wrong_files"), model_hash(config.actor_rollout_ref.model.path)
        )
        check_rows_to_write(config)
        return ok(f"{config.data.sft_pt} can be written")
    store.check_feed(config, subject.resumed)
    if not rehearses(config):
        return skipped("this run reads none")
    return store.without_row(config) or ok(f"{config.data.sft_pt} fits the run")


def answers(subject: Subject) -> Finding:
    """The scorer answers, and has every database and task of the prompts."""
    config, path = subject.config, subject.config.reward.custom_reward_function.path
    if path != scorer.OUR_REWARD:
        return skipped(f"rewards come from {path}")
    if not asks_scorer(config, subject.program):
        return skipped("nothing is judged")
    verdict = asyncio.run(scorer.check_scorer(config, subject.rows, subject.scorer_wait_s))
    if subject.program == MAIN:
        if subject.resumed is not None:
            resume.check_verdict(config, subject.resumed, verdict)
        if rehearses(config):
            store.warn_of_other_rules(config, verdict)
        with open_dict(config):  # a checkpoint's manifest has all settings
            OmegaConf.update(config, VERDICT, verdict)
    databases = len({row.question["db_id"] for row in subject.rows if "db_id" in row.question})
    return ok(f"{scorer_settings(config)['scorer']} answers" + (f"; databases asked: {databases}" if databases else ""))


def with_verl(subject: Subject) -> Finding:
    """verl's own validation of the completed settings."""
    config = subject.config
    if subject.writes_store:
        with open_dict(config):
            config.data.train_files = config.data.val_files = config.data.sft_files
            config.data.train_batch_size = config.actor_rollout_ref.actor.ppo_mini_batch_size = 1
    auto_set_device(config)
    try:
        # It prints that all is well, and its classes warn of settings that they change.
        with warnings.catch_warnings(), contextlib.redirect_stdout(None):
            warnings.simplefilter("ignore")
            validate_config(config, need_reference_policy(config), has_critic(config))
            omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    except (AssertionError, ValueError, InstantiationException) as error:
        raise UserError(f"verl rejects these settings: {' '.join(str(error).split())}") from error
    OmegaConf.resolve(config)
    return ok("they accept the settings")


def _rows(config: DictConfig) -> list[Row]:
    """The rows of the prompts for the store in a run that writes it, else of training and validation.

    Raises:
        UserError: a row is invalid (the message names its file, number and key), or a training file has a column that
            training cannot use.
    """
    if config.actor_rollout_ref.actor.generate_sft:
        names = prompt_settings(config.data)
    else:
        names = ["train_files", *(["val_files"] if config.data.val_files else [])]
    unjudged = config.actor_rollout_ref.actor.generate_sft and config.data.sft_coverage == "all"
    found = [row for name in names for row in iterate_rows(files_of(config.data[name]), unjudged=unjudged)]
    if "train_files" in names:
        _check_groups(config)
    return found


def _check_lengths(config: DictConfig) -> int:
    """Count the tokens of all prompts: verl 0.9.1's agent loop cuts the beginning off a prompt that is too long.

    Returns:
        The number of prompts that are trained on.

    Raises:
        UserError: a prompt of training or validation is longer than data.max_prompt_length, and
            data.filter_overlong_prompts does not leave it out.
    """
    found = {}
    for key in ("train_files", "val_files"):
        if key == "train_files" or config.data[key] != config.data.train_files:
            try:
                _, found[key] = tokenized_prompts(config, files_of(config.data[key]))
            except UserError as error:
                raise UserError(f"data.{key}: {error}") from None
    return len(found["train_files"])


def _check_groups(config: DictConfig) -> None:
    for file in files_of(config.data.train_files):
        if SAMPLES in pq.read_schema(file).names:
            raise UserError(
                f"{file} of data.train_files has a column {SAMPLES}, and training needs groups of "
                f"rollout.n={config.actor_rollout_ref.rollout.n} responses: remove the column "
                "(rollout.n sets the number for all prompts; data.val_files may have it)."
            )


_VALID = ("settings", "files", "model")
# They run in this order. A new check is a function of the subject, and a line here.
CHECKS: dict[str, tuple[Check[Subject], ...]] = {
    MAIN: (
        Check("rules", rules_of_training, needs=("settings", "model")),
        Check("tokenizer", tokenizer, needs=("rules",)),
        Check("checkpoint", checkpoint, needs=(*_VALID, "rules")),
        Check("disk", disk, needs=(*_VALID, "rules", "checkpoint")),
        Check("data", prompts, needs=("settings", "files")),
        Check("lengths", lengths, needs=(*_VALID, "rules", "tokenizer", "checkpoint", "data")),
        Check("store", pef_store, needs=(*_VALID, "rules", "tokenizer", "checkpoint")),
        Check("scorer", answers, needs=("data", "checkpoint")),
        Check("verl's checks", with_verl, needs=(*_VALID, "rules")),
    ),
    PRESAMPLE: (
        Check("rules", rules_of_sampling, needs=("settings", "model")),
        Check("tokenizer", tokenizer, needs=("rules",)),
        Check("data", prompts, needs=("settings", "files")),
        Check("scorer", answers, needs=("data",)),
    ),
    # evaluate checks its benchmarks itself, and each model before it samples it.
    EVALUATE: (Check("rules", rules_of_sampling),),
}


if __name__ == "__main__":
    # python -m verl.dph.checks.run PROGRAM [KEY=VALUE ...]: check a run and start nothing, for `dph doctor SCRIPT`.
    run_main(partial(_print_findings, program := sys.argv.pop(1)), program)
