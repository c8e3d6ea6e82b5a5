"""Marks: JSON files beside a result with the hash of everything that decides it, so that a rerun can skip it."""

import hashlib
import json
from pathlib import Path
from typing import Any

from rl.common import atomic_write
from rl.common.errors import UserError


def settings_hash(settings: dict) -> str:
    """sha256 (hexadecimal) of JSON-serialisable settings; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def read_mark(path: Path) -> dict | None:
    """The mark that `write_mark` left in `path`, or None if there is none.

    Raises:
        UserError: the file is not a mark.
    """
    if not path.exists():
        return None
    try:
        mark = json.loads(path.read_text())
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON ({error}); delete it to make its folder again.") from error
    if not isinstance(mark, dict) or "hash" not in mark:
        raise UserError(f'{path} has no "hash", so the demo did not write it; choose another folder or delete it.')
    return mark


def write_mark(path: Path, settings: dict, **more: Any) -> None:
    """Write {"hash": ..., "settings": ...} and `more` atomically; call it last, when the result is complete."""
    mark = {"hash": settings_hash(settings), "settings": settings} | more
    atomic_write.write_text(path, json.dumps(mark, indent=2, sort_keys=True) + "\n")
