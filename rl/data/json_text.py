"""JSON from files that others wrote."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rl.common.errors import UserError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# JSON may escape one half of a surrogate pair.
HALF_A_PAIR = "its text has half a surrogate pair, which UTF-8 cannot hold"

Record = TypeVar("Record", bound="DataclassInstance")


def loads(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: the text is not JSON, or is nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def loads_or_none(text: str | bytes) -> Any:
    """The value of a JSON text; None if the text is not JSON."""
    try:
        return loads(text)
    except ValueError:
        return None


def check_metadata(path: Path, wanted: str) -> None:
    """Reject a file's name if another kind of file has its metadata there: F.parquet and F.jsonl share F.meta.json.

    Args:
        path: F.meta.json, which may not exist yet.
        wanted: the `format` of the metadata that the file would get.

    Raises:
        UserError: naming the format that was found.
    """
    try:
        content = loads_or_none(path.read_bytes())
    except OSError:  # there is none
        return
    found = content.get("format") if isinstance(content, dict) else None
    if found is None:
        raise UserError(f"{path} is damaged, or belongs to another program: delete it, or name another file.")
    if found != wanted:
        raise UserError(
            f"{path} is not of the format {wanted} but {found}: it belongs to another file of this name; name another "
            "file."
        )


def line_of(record: Any) -> bytes:
    """A dataclass as one line of ASCII, so that a torn line never ends within a character."""
    return json.dumps(vars(record)).encode("ascii") + b"\n"


def record_of(kind: type[Record], line: bytes) -> Record | None:
    """The dataclass of one line, or None. Keys with defaults may be absent, and unknown keys are ignored."""
    try:
        content = loads(line)
        return kind(**{name: content[name] for name in kind.__dataclass_fields__ if name in content})
    except (ValueError, TypeError):
        return None
