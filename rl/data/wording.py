"""Counts and lists in sentences."""

from collections.abc import Iterable

# Items that a sentence names.
NAMED = 3


def first_of(items: Iterable[object]) -> str:
    """The first few items: a, b, c and 2 more."""
    items = list(items)
    rest = f" and {len(items) - NAMED} more" if len(items) > NAMED else ""
    return ", ".join(map(str, items[:NAMED])) + rest


def named(ids: Iterable[object]) -> str:
    """The first few ids: ids 3, 7, 9 and 2 more."""
    ids = list(ids)
    return f"id{'s' * (len(ids) > 1)} {first_of(ids)}"


def number_of(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
