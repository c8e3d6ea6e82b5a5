"""JSON from files that others wrote."""

import json
from typing import TYPE_CHECKING, Any, TypeVar

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
