"""Conversion between a nested configuration and the full names of its settings."""

from collections.abc import Iterator, Mapping
from typing import Any


def flat(settings: Mapping, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (full name, value) of every setting; lists and empty mappings count as values."""
    for name, value in settings.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """The nested configuration of {full name: value}."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        *sections, name = key.split(".")
        below = found
        for section in sections:
            below = below.setdefault(section, {})
        below[name] = value
    return found
