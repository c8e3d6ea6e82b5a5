"""The files of a model: in its folder, or in the cache of the Hugging Face Hub."""

import os
from pathlib import Path

from rl.common.errors import UserError

# Only the first pattern with a match counts: a folder with both kinds of files holds the same weights twice.
_WEIGHT_PATTERNS = ("*.safetensors", "pytorch_model*.bin")
_HUB_LIMIT_S = 10
UNMERGED = (
    "{} holds a LoRA adapter beside its base model, and no merged weights: merge the adapter into the model (peft's "
    "merge_and_unload), save that and name its folder."
)
CONFIG_FILES = ("config.json", "generation_config.json")
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
)


def local_folder(model: str | os.PathLike) -> Path:
    """A model's folder; for a name on the Hub the cached folder, downloaded if missing: the engine will need it too."""
    folder = Path(os.path.expanduser(model))
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    wanted = [_WEIGHT_PATTERNS[0], *CONFIG_FILES, *TOKENIZER_FILES]
    try:
        return Path(snapshot_download(str(model), allow_patterns=wanted))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise UserError(
            f"The model {model} is not a folder, and the Hugging Face Hub did not provide it ({type(error).__name__}): "
            "give the folder of a model or run."
        ) from error


def cached_config(model: str) -> Path | None:
    """config.json of a model on the Hub that was downloaded before."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(model, "config.json")
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None


def check_hub(model: str, setting: str) -> None:
    """Reject a name that the Hub does not have; it is asked once, and not if the model was downloaded before.

    Args:
        setting: where a user names the model.
    """
    from huggingface_hub import HfApi

    if cached_config(model):
        return
    try:
        HfApi().model_info(model, timeout=_HUB_LIMIT_S)
    except Exception as error:  # not a name, not there for this user, or no connection
        raise UserError(
            f"The model {model} is not a folder here, and the Hugging Face Hub did not provide it "
            f"({type(error).__name__}): give the model's folder in {setting}."
        ) from error


def weight_files(folder: Path) -> list[Path]:
    """The files with a model's weights, sorted; empty if the folder holds none."""
    return next((found for pattern in _WEIGHT_PATTERNS if (found := sorted(folder.glob(pattern)))), [])


def require_weights(folder: Path) -> list[Path]:
    """The weight_files; a folder without any is rejected, and one of verl.model_merger with a base and its adapter."""
    if (folder / "lora_adapter").is_dir():
        raise UserError(UNMERGED.format(folder))
    if not (files := weight_files(folder)):
        patterns = " or ".join(_WEIGHT_PATTERNS)
        raise UserError(f"The model folder {folder} holds no weights ({patterns}): give a complete model folder.")
    return files


def parameters_in_files(model: str) -> int:
    """The number of parameters in the safetensors files of a model's folder; 0 without one."""
    return sum(tensors_in_files(model).values())


def tensors_in_files(model: str | os.PathLike) -> dict[str, int]:
    """The number of parameters of each tensor in these files, by its name."""
    from huggingface_hub import parse_local_safetensors_file_metadata  # slow to import
    from huggingface_hub.errors import SafetensorsParsingError

    found: dict[str, int] = {}
    for file in Path(model).expanduser().glob("*.safetensors"):
        try:
            tensors = parse_local_safetensors_file_metadata(file).tensors
        except (OSError, SafetensorsParsingError) as error:
            raise UserError(f"{file} is not a safetensors file: download the model again.") from error
        found |= {name: tensor.parameter_count for name, tensor in tensors.items()}
    return found
