"""Names of files or folders, as short as they can be."""

from collections.abc import Sequence
from pathlib import Path


def shortest_names(paths: Sequence[Path]) -> list[str]:
    """The last parts of each path, joined by _, as many as make all names differ.

    Args:
        paths: all different.
    """
    names: list[str] = []
    for parts in range(1, max((len(path.parts) for path in paths), default=0) + 1):
        names = ["_".join(path.parts[-parts:]).strip("/") for path in paths]
        if len({*names}) == len(names):
            break
    return names
