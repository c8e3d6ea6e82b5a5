"""What a launcher checks before it starts a program: settings, and that the run's files are there."""

import os
from pathlib import Path

from rl.common.errors import UserError
from rl.configuration.compose import CONFIG_OF
from rl.configuration.programs import PROGRAMS
from rl.configuration.run import Run
from rl.configuration.setting import violations
from rl.configuration.variables import variable_of

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
        check_files(run)


def _check_settings(run: Run) -> None:
    sentences = []
    for setting, sentence in violations(run.composed, PROGRAMS[CONFIG_OF[run.program]].settings):
        variable = variable_of(run.composed, setting.key)
        sentences.append(sentence.replace(setting.key, variable, 1) if variable else sentence)
    if sentences:
        raise UserError("\n".join(sentences))


def check_batch_of(run: Run) -> None:
    """Compare a training run's batch with its prompts, where these are files that can be read."""
    values = run.values
    if run.program != TRAINING or values["actor_rollout_ref.actor.generate_sft"]:
        return
    import pyarrow.parquet as pq

    from rl.common.batch_size import check_batch

    try:
        prompts = sum(pq.read_metadata(file).num_rows for file in files_of(values["data.train_files"]))
    except (OSError, ValueError):
        return
    if isinstance(values["data.train_batch_size"], int):
        check_batch(values["data.train_batch_size"], prompts)


def files_of(value: object) -> list[Path]:
    return [Path(str(file)).expanduser() for file in ([value] if isinstance(value, str) else value or [])]  # type: ignore


def check_files(run: Run) -> None:
    values = run.values
    model = str(values["actor_rollout_ref.model.path"])
    looks_local = (model.startswith(("/", ".", "~")) or model.count("/") > 1) and "://" not in model
    if looks_local and not Path(model).expanduser().is_dir():
        raise UserError(
            f"the model folder {model} does not exist: give a folder or a name on the Hugging Face Hub in MODEL_PATH."
        )
    if run.program != TRAINING:
        keys = ["train_files"]
    elif values["actor_rollout_ref.actor.generate_sft"]:
        keys = ["sft_files"]
    else:
        keys = ["train_files", "val_files", "sft_files", "sft_pt"]
    for key in keys:
        value = values.get(f"data.{key}")
        for path in files_of(None if value == "None" else value):
            if "://" not in str(path) and not path.is_file():
                raise UserError(f"data.{key}={path} does not exist: {_origin(run, key, path)}.")


def _origin(run: Run, key: str, path: Path) -> str:
    """How to get a file."""
    if key == "sft_pt" and str(path) == str(run.launch.foreign_store):
        return "get_correct_data_tensor.sh writes it with data.sft_responses=FILE, FOREIGN_PT names it"
    if key == "sft_pt":
        return "get_correct_data_tensor.sh writes it, SFT_PT names it"
    if key == "val_files":
        return (
            "the commands of docs/howto/data.md write it, VAL_FILES names it; VAL_FILES= trains without validation"
        )
    if path.name == "train_wrong.parquet" and path.parent.name == "unsolved":
        return (
            f"dph split --threshold 1 --keep-zero --out {path.parent} writes it after offline_sampling.sh, "
            "TRAIN_UNSOLVED names it"
        )
    if path.name in ("train_wrong.parquet", "train_correct.parquet"):
        return "exact_correct_id.py writes it after offline_sampling.sh"
    return "the commands of docs/howto/data.md write it, TRAIN_FILE names it"
