"""What a launcher checks before it starts a program: settings, and that the run's files are there."""

import os

from rl.checks.batch import check_batch
from rl.checks.files import check_files, check_model, files_of
from rl.common.errors import UserError
from rl.configuration.compose import CONFIG_OF
from rl.configuration.programs import PROGRAMS
from rl.configuration.run import Run
from rl.configuration.setting import violations
from rl.configuration.variables import raw, variable_of

TRAINING = "verl.dph.main"


def check(run: Run, files: bool) -> None:
    """Reject what cannot work, in a second; the program checks everything again, with the model and verl's own rules.

    Args:
        files: whether the run's files have to be there.

    Raises:
        UserError: naming the setting, or the variable that gave it.
    """
    launch = run.launch
    explored = launch.get("explored")
    if launch.plan not in ("check", "ignore"):
        raise UserError(f"PLAN is '{launch.plan}': give check, or ignore to make no plan.")
    if explored not in (None, "exp", "all"):
        raise UserError(f"EXPLORED is '{explored}': give exp (TRAIN_WRONG) or all (BASELINE_FILES).")
    if explored is None and os.environ.get("EXPLORED", "exp") not in ("", "exp"):
        raise UserError(
            f"EXPLORED={os.environ['EXPLORED']} is for methods that rehearse D_pef, and this one does not: unset it."
        )
    _check_settings(run)
    check_batch_of(run)
    if files:
        check_files_of(run)


def _check_settings(run: Run) -> None:
    sentences, written = [], raw(run.composed)
    for setting, sentence in violations(run.composed, PROGRAMS[CONFIG_OF[run.program]].settings):
        variable = variable_of(written.get(setting.key))
        given = variable and os.environ.get(variable)
        sentences.append(sentence.replace(setting.key, str(variable), 1) if given else sentence)
    if sentences:
        raise UserError("\n".join(sentences))


def check_batch_of(run: Run) -> None:
    """Compare a training run's batch with its prompts, where these are files that can be read."""
    values = run.values
    if run.program != TRAINING or values["actor_rollout_ref.actor.generate_sft"]:
        return
    import pyarrow.parquet as pq

    try:
        prompts = sum(pq.read_metadata(file).num_rows for file in files_of(values["data.train_files"]))
    except (OSError, ValueError):
        return
    if isinstance(values["data.train_batch_size"], int):
        check_batch(values["data.train_batch_size"], prompts)


def check_files_of(run: Run) -> None:
    """Reject a run that names a file or a model's folder that is not there."""
    check_model("actor_rollout_ref.model.path", str(run.values["actor_rollout_ref.model.path"]), ask_hub=False)
    if run.program != TRAINING:
        names = ["train_files"]
    elif run.values["actor_rollout_ref.actor.generate_sft"]:  # which writes the store
        names = ["sft_files"]
    else:
        names = ["train_files", "val_files", "sft_files", "sft_pt"]
    for name in names:
        setting = run.values[f"data.{name}"]
        check_files(name, None if setting == "None" else setting)
