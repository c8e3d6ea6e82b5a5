"""The rows of the prompts that a training run reads."""

import pyarrow.parquet as pq
from omegaconf import DictConfig

from rl.checks.files import files_of, prompt_settings
from rl.common.errors import UserError
from rl.data.rows import SAMPLES, Row, read_rows
from rl.data.split import BASE_CORRECT
from verl.dph.training.config import has_keep_probe


def rows(config: DictConfig) -> list[Row]:
    """The rows of the prompts for the store in a run that writes it, else of training and validation.

    Raises:
        UserError: a row is invalid (the message names its file, number and key), a training file has a column that
            training cannot use, or a file of the keep probe lacks one.
    """
    if config.actor_rollout_ref.actor.generate_sft:
        names = prompt_settings(config.data)
    else:
        names = ["train_files", *(["val_files"] if config.data.val_files else [])]
        _check_groups(config)
    if has_keep_probe(config):
        _check_probe(config.trainer.keep_probe)
    return [row for name in names for row in read_rows(files_of(config.data[name]))]


def _check_groups(config: DictConfig) -> None:
    for file in files_of(config.data.train_files):
        if SAMPLES in pq.read_schema(file).names:
            raise UserError(
                f"{file} of data.train_files has a column {SAMPLES}, and training needs groups of "
                f"rollout.n={config.actor_rollout_ref.rollout.n} responses: remove the column (ROLLOUT_N in the "
                "scripts sets the number for all prompts; data.val_files may have it)."
            )


def _check_probe(probe: DictConfig) -> None:
    for files in (probe.solved_files, probe.unsolved_files):
        read_rows(files_of(files))
    for file in files_of(probe.unsolved_files):
        if BASE_CORRECT not in pq.read_schema(file).names:
            raise UserError(
                f"trainer.keep_probe.unsolved_files={file} has no column {BASE_CORRECT}, by which dph/newly_solved "
                "finds what the initial policy did not solve: give the train_wrong.parquet of "
                "data/sql/process_data/exact_correct_id.py, made anew if it is older."
            )
