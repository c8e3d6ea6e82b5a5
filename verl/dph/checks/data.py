"""The rows of the prompts that a training run reads."""

import pyarrow.parquet as pq
from omegaconf import DictConfig

from rl.checks.files import files_of, prompt_settings
from rl.common.errors import UserError
from rl.data.rows import SAMPLES, Row, iterate_rows
from verl.dph.sampling.job import tokenized_prompts


def rows(config: DictConfig) -> list[Row]:
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


def check_lengths(config: DictConfig) -> int:
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
