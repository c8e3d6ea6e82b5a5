"""What a launcher checks before it starts a program: settings, and that the run's files are there."""

from rl.checks.batch import check_batch
from rl.checks.files import check_files, check_model, files_of
from rl.configuration.compose import CONFIG_OF
from rl.configuration.programs import PROGRAMS
from rl.configuration.run import Run
from rl.configuration.variables import check_composed

TRAINING = "verl.dph.main"


def check(run: Run, files: bool) -> None:
    """Reject what cannot work, in a second; the program checks everything again, with the model and verl's own rules.

    Args:
        files: whether the run's files have to be there.

    Raises:
        UserError: naming the setting, or the variable that gave it.
    """
    check_composed(run.composed, PROGRAMS[CONFIG_OF[run.program]].settings)
    check_batch_of(run)
    if files:
        check_files_of(run)


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
