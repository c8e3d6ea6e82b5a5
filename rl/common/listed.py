"""Names in a sentence."""

from collections.abc import Iterable


def listed(names: Iterable[str]) -> str:
    """a, b and c."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
