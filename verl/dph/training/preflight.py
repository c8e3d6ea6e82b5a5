"""What is tried before Ray starts: the files that a run names and their rows."""

from collections.abc import Sequence

import pyarrow.parquet as pq
from omegaconf import DictConfig

from rl.checks import files
from rl.checks.batch import check_batch
from rl.checks.files import files_of
from rl.common.errors import UserError
from rl.data.rows import SAMPLES, Row, read_rows
from rl.data.split import BASE_CORRECT
from verl.dph.pef.row_sources import prompt_settings, uses_samples
from verl.dph.training.config import has_keep_probe, rehearses


def check_files(config: DictConfig) -> None:
    """Reject a run whose data files, store or keep-rate probe are not there.

    Raises:
        UserError: naming the setting, file or row.
    """
    if config.actor_rollout_ref.actor.generate_sft:
        keys = prompt_settings(config.data)
        if config.data.sft_responses:
            keys.append("sft_responses")
        elif uses_samples(config.data):
            keys.append("sft_samples")
        elif config.data.sft_refinement_failures == "move":
            keys.append("sft_wrong_files")
    else:
        keys = ["train_files", "val_files"] + (["sft_files", "sft_pt"] if rehearses(config) else [])
    for key in keys:
        if not config.data[key]:
            raise UserError(f"data.{key} is not set, and this run needs it: name the file.")
        files.check_files(key, config.data[key])
    if has_keep_probe(config):
        _check_probe_files(config.trainer.keep_probe)


def _check_probe_files(probe: DictConfig) -> None:
    for key in ("solved_files", "unsolved_files"):
        probed = files_of(probe[key])
        if not probed:
            raise UserError(
                f"trainer.keep_probe.{key} is not set, and trainer.keep_probe.prompts={probe.prompts} needs it: name "
                "the file, or set prompts to 0."
            )
        read_rows(probed)
    for file in files_of(probe.unsolved_files):
        if BASE_CORRECT not in pq.read_schema(file).names:
            raise UserError(
                f"trainer.keep_probe.unsolved_files={file} has no column {BASE_CORRECT}, by which dph/newly_solved "
                "finds what the initial policy did not solve: give the train_wrong.parquet of "
                "data/sql/process_data/exact_correct_id.py, made anew if it is older."
            )


def check_rows(config: DictConfig, names: Sequence[str]) -> list[Row]:
    """All rows of the files in data.<name>, each checked.

    Raises:
        UserError: naming file, row and key, or the batch that the training prompts do not fill, or training prompts
            with a number of rollouts of their own.
    """
    rows = {name: read_rows(files_of(config.data[name])) for name in names}
    if "train_files" in rows:
        check_batch(config.data.train_batch_size, len(rows["train_files"]))
    for file in files_of(config.data.train_files) if "train_files" in rows else []:
        if SAMPLES in pq.read_schema(file).names:
            raise UserError(
                f"{file} of data.train_files has a column {SAMPLES}, and training needs groups of "
                f"rollout.n={config.actor_rollout_ref.rollout.n} responses: remove the column (ROLLOUT_N in the "
                "scripts sets the number for all prompts; data.val_files may have it)."
            )
    return [row for name in names for row in rows[name]]
