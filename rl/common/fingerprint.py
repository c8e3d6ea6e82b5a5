"""sha256 fingerprints of files, model weights and tokenizers, by which samples and stores name what they belong to.

A model is a folder, or the name of one on the Hugging Face Hub. What is not there is a UserError.
"""

import functools
import hashlib
import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rl.common.errors import UserError, file_errors
from rl.common.model_files import CONFIG_FILES, TOKENIZER_FILES, local_folder, require_weights

_SHA256 = re.compile(r"\b[0-9a-f]{64}\b")


def file_sha256(path: str | os.PathLike) -> str:
    """sha256 of a file's bytes, hexadecimal, read as a stream."""
    with file_errors(path, "read", "give an existing file"), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def model_hash(model: str | os.PathLike) -> str:
    """sha256 over the names and contents of a model's weight files, hexadecimal."""
    return _combined_hash(require_weights(local_folder(model)))


def tokenizer_hash(model: str | os.PathLike) -> str:
    """sha256 over the names and contents of a model's tokenizer files (the chat template among them), hexadecimal."""
    folder = local_folder(model)
    files = [folder / name for name in sorted(TOKENIZER_FILES) if (folder / name).is_file()]
    if not files:
        raise UserError(f"{folder} holds no tokenizer (tokenizer.json and the like): give a folder that has one.")
    return _combined_hash(files)


def model_hashes(model: str | os.PathLike, tokenizer: str | os.PathLike | None) -> dict[str, str]:
    """What samples, stores and runs are compared by: {"model_hash": ..., "tokenizer_hash": ..., "config_hash": ...}.
    `tokenizer` is None if it is the model's."""
    hashes = {"model_hash": model_hash(model), "tokenizer_hash": tokenizer_hash(tokenizer or model)}
    return hashes | {"config_hash": config_hash(model)}


def config_hash(model: str | os.PathLike) -> str:
    """sha256 over a model's config.json and generation_config.json, which say what it computes and where it ends."""
    folder = local_folder(model)
    return _combined_hash(folder / name for name in CONFIG_FILES if (folder / name).is_file())


def short(value: object) -> str:
    """A value for a message, in which each sha256 is shortened to its first 12 digits."""
    return _SHA256.sub(lambda found: found[0][:12], str(value))


def _kept_sha256(path: Path) -> str:
    """file_sha256, cached while the file's size and time stay the same: an evaluation asks once per split."""
    # A link of the Hub's cache may lead to a file that is gone.
    with file_errors(path, "read", "download the model again"):
        state = path.stat()
    return _sha256_of_state(path, state.st_size, state.st_mtime_ns)


@functools.lru_cache(maxsize=1024)
def _sha256_of_state(path: Path, size: int, mtime_ns: int) -> str:
    return file_sha256(path)


def _combined_hash(files: Iterable[Path]) -> str:
    files = list(files)
    with ThreadPoolExecutor(max_workers=4) as pool:  # hashlib releases the GIL, and the disk soon becomes the limit
        hashes = [*pool.map(_kept_sha256, files)]
    lines = "".join(f"{file.name} {digest}\n" for file, digest in zip(files, hashes, strict=True))
    return hashlib.sha256(lines.encode()).hexdigest()
