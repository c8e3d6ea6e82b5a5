"""The files that a run names: data, the D_pef store, the model's folder."""

import os
from collections.abc import Sequence
from pathlib import Path

from rl.common.errors import UserError

_HUB_LIMIT_S = 10
_SPLIT = "run data/sql/process_data/exact_correct_id.py after offline_sampling.sh"
_PUBLISHED = "the commands of docs/howto/data.md write it"
# How to get the file of a setting of `data`.
_ORIGIN = {
    "train_files": f"{_PUBLISHED}, TRAIN_FILE names it",
    "val_files": f"{_PUBLISHED}, VAL_FILES names it; VAL_FILES= trains without validation",
    "sft_files": f"{_SPLIT}, which writes train_correct.parquet",
    "sft_wrong_files": f"{_SPLIT}, which writes train_wrong.parquet",
    "sft_samples": "run offline_sampling.sh (scripts/llama, scripts/qwen), which writes it",
    "sft_responses": "give a parquet or JSON lines of responses (docs/howto/foreign-responses.md)",
    "sft_pt": "run get_correct_data_tensor.sh (scripts/llama, scripts/qwen), which writes it, SFT_PT names it",
}


def files_of(setting: str | Sequence[str] | None) -> list[Path]:
    """The paths of a setting that names one file, several or none; `~` is expanded."""
    return [Path(file).expanduser() for file in ([setting] if isinstance(setting, str) else setting or [])]


def check_files(name: str, setting: str | Sequence[str] | None) -> None:
    """Reject a file that is not there.

    Args:
        name: of the setting, below `data`.

    Raises:
        UserError: naming the first file that is missing, and how to get it.
    """
    for path in files_of(setting):
        if "://" not in str(path) and not path.is_file():
            raise UserError(f"data.{name}={path} does not exist: {_origin(name, path)}.")


def _origin(name: str, path: Path) -> str:
    if path.name == "foreign.pt":
        return "get_correct_data_tensor.sh writes it with data.sft_responses=FILE, FOREIGN_PT names it"
    if path.parts[-2:] == ("unsolved", "train_wrong.parquet"):
        return (
            f"dph split --threshold 1 --keep-zero --out {path.parent} writes it after offline_sampling.sh, "
            "TRAIN_UNSOLVED names it"
        )
    if path.name in ("train_wrong.parquet", "train_correct.parquet"):
        return f"{_SPLIT}, which writes it"
    return _ORIGIN[name]


def check_model(key: str, model: str, *, ask_hub: bool = True) -> None:
    """Reject a folder without a model, and a name that the Hugging Face Hub does not have.

    A name a/b is a path if the folder a, or a/b itself, is here. Of a model that is neither here nor in its cache the
    Hub is asked once: transformers asks for 30 s.

    Args:
        key: the setting that names it.
        ask_hub: without, a name on the Hub is taken as it is.

    Raises:
        UserError: there is no such model, or the Hub cannot be reached.
    """
    looks_local = model.startswith(("/", ".", "~")) or model.count("/") > 1 or os.path.isdir(model.split("/")[0])
    if looks_local and "://" not in model:
        folder = Path(model).expanduser()
        if not (folder / "config.json").is_file():
            missing = "" if folder.is_dir() else f" (the model folder {model} does not exist)"
            raise UserError(
                f"{key}={model} holds no config.json{missing}: give the folder of a Hugging Face model, or a name on "
                "the Hub, in MODEL_PATH."
            )
    elif ask_hub:
        _check_hub(model)


def _check_hub(model: str) -> None:
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

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
