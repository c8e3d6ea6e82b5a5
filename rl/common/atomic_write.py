"""Atomic writes: a reader sees either the old content of a file or folder or the new one, never a part."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rl.common.errors import file_errors


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary path for a new file or folder; rename it to `path` when the block succeeds.

    After an exception the old content stays, and the temporary path is removed.
    """
    path = Path(path)
    # The name is hidden: programs that list a folder of address files skip it.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    _remove(temporary)  # a killed process with this id may have left one
    try:
        yield temporary
        if temporary.is_dir() and path.is_dir():  # a folder that is not empty cannot be replaced in one step
            shutil.rmtree(path)
        os.replace(temporary, path)
    finally:
        _remove(temporary)


def write_text(path: Path, text: str) -> None:
    """Replace `path` by the text (UTF-8)."""
    advice = "make room, or make it writable, and run the same command again"
    with file_errors(path, "written", advice), replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
