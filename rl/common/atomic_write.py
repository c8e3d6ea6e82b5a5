"""Files that are never half-written: the text goes to a file beside, which then takes the name."""

import os
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Replaces `path` by the text (UTF-8) in one step; a reader sees the old content or the new one."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
