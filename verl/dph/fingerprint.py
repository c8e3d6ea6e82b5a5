"""sha256 fingerprints of files, of a model's weights and of its tokenizer: what samples and stores belong to."""

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from verl.dph.errors import UserError

# The first pattern that matches anything counts: a folder with both holds the same weights twice.
_WEIGHT_PATTERNS = ("*.safetensors", "pytorch_model*.bin")
_TOKENIZER_FILES = (
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


def file_sha256(path: str | os.PathLike) -> str:
    """sha256 of a file's bytes, hexadecimal, read as a stream.

    Raises:
        UserError: the file cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): give an existing file.") from error


def model_hash(folder: str | os.PathLike) -> str:
    """sha256 over the names and contents of a model folder's weight files, hexadecimal.

    Raises:
        UserError: not a folder, or one without weights.
    """
    folder = _folder(folder)
    for pattern in _WEIGHT_PATTERNS:
        files = sorted(folder.glob(pattern))
        if files:
            return _combined_hash(files)
    raise UserError(
        f"The model folder {folder} holds no weights ({' or '.join(_WEIGHT_PATTERNS)}): give a complete model folder."
    )


def tokenizer_hash(folder: str | os.PathLike) -> str:
    """sha256 over the names and contents of a folder's tokenizer files (the chat template among them), hexadecimal.

    Raises:
        UserError: not a folder, or one without a tokenizer.
    """
    folder = _folder(folder)
    files = [folder / name for name in sorted(_TOKENIZER_FILES) if (folder / name).is_file()]
    if not files:
        raise UserError(f"{folder} holds no tokenizer (tokenizer.json and the like): give a folder that has one.")
    return _combined_hash(files)


def _folder(folder: str | os.PathLike) -> Path:
    path = Path(os.path.expanduser(folder))
    if not path.is_dir():
        raise UserError(f"{folder} is not a folder: give a local model folder (download it first).")
    return path


def _combined_hash(files: Iterable[Path]) -> str:
    files = list(files)
    with ThreadPoolExecutor(max_workers=4) as pool:  # hashlib lets go of the GIL; the disk is soon the limit
        hashes = list(pool.map(file_sha256, files))
    lines = "".join(f"{file.name} {digest}\n" for file, digest in zip(files, hashes, strict=True))
    return hashlib.sha256(lines.encode()).hexdigest()
