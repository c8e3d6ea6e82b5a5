"""JSON from files that others wrote."""

import json
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record", bound="DataclassInstance")


def loads_or_none(text: str | bytes) -> Any:
    """The value of a JSON text; None if the text is not JSON, or is nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def line_of(record: Any) -> bytes:
    """A dataclass as one line of ASCII, so that a torn line never ends within a character."""
    return json.dumps(vars(record)).encode("ascii") + b"\n"


def record_of(kind: type[Record], line: bytes) -> Record | None:
    """The dataclass of one line, or None. Keys with defaults may be absent, and unknown keys are ignored."""
    content = loads_or_none(line)
    try:
        return kind(**{name: content[name] for name in kind.__dataclass_fields__ if name in content})
    except TypeError:
        return None
