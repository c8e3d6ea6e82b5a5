"""What is tried before Ray starts: the files that a run names and their rows."""

import os
from collections.abc import Sequence

import pyarrow.parquet as pq
from omegaconf import DictConfig

from rl.common.batch_size import check_batch
from rl.common.errors import UserError
from rl.data.rows import SAMPLES, Row, read_rows
from rl.data.split import BASE_CORRECT
from verl.dph.pef.row_sources import prompt_settings, uses_samples
from verl.dph.training.config import files_of, has_keep_probe, rehearses

_HUB_LIMIT_S = 10

_SPLIT = "run data/sql/process_data/exact_correct_id.py"
_ORIGIN = {
    "train_files": f"give a parquet of prompts, or {_SPLIT} for train_wrong.parquet",
    "val_files": "give a parquet of prompts",
    "sft_files": f"{_SPLIT}, which writes train_correct.parquet",
    "sft_wrong_files": f"{_SPLIT}, which writes train_wrong.parquet",
    "sft_samples": "run offline_sampling.sh (scripts/llama, scripts/qwen), which writes it",
    "sft_responses": "give a parquet or JSON lines of responses (docs/howto/foreign-responses.md)",
    "sft_pt": "run get_correct_data_tensor.sh (scripts/llama, scripts/qwen), which writes it",
}


def check_model(key: str, model: str) -> None:
    """Reject a folder without a model, and a name that the Hugging Face Hub does not have.

    A name a/b is a path if the folder a, or a/b itself, is here. Of a model that is neither here nor in its cache the
    Hub is asked once: transformers asks for 30 s.

    Args:
        key: the setting that names it.

    Raises:
        UserError: there is no such model, or the Hub cannot be reached.
    """
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    looks_local = model.startswith(("/", ".", "~")) or model.count("/") > 1 or os.path.isdir(model.split("/")[0])
    if looks_local:
        if not os.path.isfile(os.path.join(os.path.expanduser(model), "config.json")):
            raise UserError(f"{key}={model} holds no config.json: give the folder of a Hugging Face model.")
        return
    try:
        if isinstance(try_to_load_from_cache(model, "config.json"), str):
            return
        HfApi().model_info(model, timeout=_HUB_LIMIT_S)
    except (HFValidationError, HfHubHTTPError) as error:
        reason = f"the Hugging Face Hub has no such model for you ({type(error).__name__})"
    except Exception as error:  # of the library that asks; HF_HUB_OFFLINE has one of its own
        reason = f"the Hugging Face Hub cannot be reached (offline: {type(error).__name__})"
    else:
        return
    raise UserError(f"The model {model} is no folder here, and {reason}: give the model's folder in MODEL_PATH.")


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
        paths = files_of(config.data[key])
        if not paths:
            raise UserError(f"data.{key} is not set, and this run needs it: name the file.")
        for path in paths:
            if not path.is_file():
                raise UserError(f"data.{key}={path} does not exist: {_ORIGIN[key]}.")
    if has_keep_probe(config):
        _check_probe_files(config.trainer.keep_probe)


def _check_probe_files(probe: DictConfig) -> None:
    for key in ("solved_files", "unsolved_files"):
        files = files_of(probe[key])
        if not files:
            raise UserError(
                f"trainer.keep_probe.{key} is not set, and trainer.keep_probe.prompts={probe.prompts} needs it: name "
                "the file, or set prompts to 0."
            )
        read_rows(files)
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
