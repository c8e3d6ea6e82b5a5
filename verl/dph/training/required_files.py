"""The data files that a run names, and who writes each."""

import os

from omegaconf import DictConfig

from rl.common.errors import UserError

_ORIGIN = {
    "train_files": "give a parquet of prompts, or run data/sql/process_data/exact_correct_id.py for "
    "train_wrong.parquet",
    "val_files": "give a parquet of prompts",
    "sft_files": "run data/sql/process_data/exact_correct_id.py, which writes train_correct.parquet",
    "sft_wrong_files": "run data/sql/process_data/exact_correct_id.py, which writes train_wrong.parquet",
    "sft_pt": "run get_correct_data_tensor.sh (scripts/llama, scripts/qwen), which writes it",
}


def require_files(config: DictConfig, *keys: str) -> None:
    """Refuse a setting data.KEY that names no file, or one that is not there."""
    for key in keys:
        value = config.data[key]
        paths = [value] if isinstance(value, str) else list(value or [])
        if not paths:
            raise UserError(f"data.{key} is not set, and this run needs it: name the file.")
        for path in paths:
            if not os.path.isfile(os.path.expanduser(path)):
                raise UserError(f"data.{key}={path} does not exist: {_ORIGIN[key]}.")
