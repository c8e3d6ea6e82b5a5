"""What makes a rerun skip: a hash of everything that decides a result, kept in a JSON file beside the result."""

import hashlib
import json
from pathlib import Path

from rl.common import atomic_write
from rl.common.errors import UserError


def settings_hash(settings: dict) -> str:
    """sha256 (hexadecimal) of settings that JSON can write; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def read_mark(path: Path) -> dict | None:
    """The mark that `write_mark` left in `path`, or None where there is none.

    Raises:
        UserError: the file is not such a mark.
    """
    if not path.exists():
        return None
    try:
        mark = json.loads(path.read_text())
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON ({error}); delete it to make its folder anew.") from error
    if not isinstance(mark, dict) or "hash" not in mark:
        raise UserError(f'{path} has no "hash", so the demo did not write it; choose another folder or delete it.')
    return mark


def write_mark(path: Path, settings: dict) -> None:
    """Writes {"hash": ..., "settings": ...} in one step; to be called last, when the result is complete."""
    mark = {"hash": settings_hash(settings), "settings": settings}
    atomic_write.write_text(path, json.dumps(mark, indent=2, sort_keys=True) + "\n")
