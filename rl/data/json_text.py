"""JSON of files that others wrote: whatever is wrong with it is a ValueError."""

import json
from typing import Any


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
