"""Names of files or folders, as short as they can be."""

from collections.abc import Sequence
from pathlib import Path


def shortest_names(paths: Sequence[Path]) -> list[str]:
    """The last parts of each path, joined by _, as many as make all names differ; numbered if none does.

    Args:
        paths: all different.
    """
    names: list[str] = []
    for parts in range(1, max((len(path.parts) for path in paths), default=0) + 1):
        names = ["_".join(path.parts[-parts:]).removeprefix("/_").strip("/") for path in paths]
        if len({*names}) == len(names):
            return names
    # a/b_c and a_b/c.
    return [f"{name}_{number}" for number, name in enumerate(names, start=1)]
