"""A nested configuration as full names."""

from collections.abc import Iterator
from typing import Any


def flat(settings: dict, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(full name, value) of every setting; a list and an empty mapping are values."""
    for name, value in settings.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
