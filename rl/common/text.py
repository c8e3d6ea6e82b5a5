"""Numbers, names, lists and texts in programs' output."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

GB = 10**9
# A sentence lists at most this many items.
NAMED = 3
BAR_WIDTH = 40
# A long text is shown with this many characters of its start and of its end.
_HEAD, _TAIL = 400, 200


def in_bytes(count: float) -> str:
    """2.5e9 -> "2.5 GB"."""
    return f"{count / GB:.3g} GB" if count >= GB else f"{count / 1e6:.3g} MB"


def number_of(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def listed(names: Iterable[str]) -> str:
    """a, b and c."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def first_of(items: Iterable[object]) -> str:
    """The first few items: a, b, c and 2 more."""
    items = list(items)
    rest = f" and {len(items) - NAMED} more" if len(items) > NAMED else ""
    return ", ".join(map(str, items[:NAMED])) + rest


def named(ids: Iterable[object]) -> str:
    """The first few ids: ids 3, 7, 9 and 2 more."""
    ids = list(ids)
    return f"id{'s' * (len(ids) > 1)} {first_of(ids)}"


def without_reference(ids: Sequence[object]) -> str:
    """A sentence about prompts whose gold answer failed in every sample; a busy scorer may cause single failures."""
    return (
        f"the gold answer of {number_of(len(ids), 'prompt')} failed in every sample ({named(ids)}), so that no "
        "response is rewarded there: dph audit finds such prompts."
    )


def histogram(name: str, prompts: Mapping[Any, int], parts: Mapping[Any, str] | None = None) -> list[str]:
    """A headline, then a line for each number of correct samples, with its number of prompts.

    Args:
        name: the heading of the numbers.
        prompts: the number of prompts by the number of correct samples.
        parts: a word for each number of correct samples, shown before its bar.
    """
    scale = BAR_WIDTH / (max(prompts.values(), default=0) or 1)
    lines = [f"{name:>13}  prompts"]
    for number, count in prompts.items():
        part = f"{parts[number]:<7} " if parts else ""
        lines.append(f"{number:>13} {count:>8,}  {part}{'#' * round(scale * count)}".rstrip())
    return lines


def shortened(value: Any) -> str:
    """A printable text of bounded length."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]} [... {len(text) - _HEAD - _TAIL:,} characters ...] {text[-_TAIL:]}"
    return printable(text)


def printable(text: str) -> str:
    """A text without control characters, because a model's text must not steer the terminal, and without half of a
    surrogate pair, which cannot be written."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


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
