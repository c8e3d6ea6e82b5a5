"""JSON of files that others wrote."""

import json
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record", bound="DataclassInstance")


def loads(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is no JSON, or nested too deeply to be read.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def loads_or_none(text: str | bytes) -> Any:
    """The value of a JSON text, None for a text that is no JSON."""
    try:
        return loads(text)
    except ValueError:
        return None


def line_of(record: Any) -> bytes:
    """A dataclass as one line. ASCII only, so that a torn line never ends within a character."""
    return json.dumps(vars(record)).encode("ascii") + b"\n"


def record_of(kind: type[Record], line: bytes) -> Record | None:
    """The dataclass of one line, None if the line is not one; keys with defaults may be absent, others are ignored."""
    try:
        content = loads(line)
        return kind(**{name: content[name] for name in kind.__dataclass_fields__ if name in content})
    except (ValueError, TypeError):
        return None
