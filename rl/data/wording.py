"""Counts, lists and histograms in what programs print."""

from collections.abc import Iterable, Sequence

# Items that a sentence names.
NAMED = 3
BAR_WIDTH = 40


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
    """Of prompts whose gold answer failed in every sample. One that fails once may have met a busy scorer."""
    return (
        f"the gold answer of {number_of(len(ids), 'prompt')} failed in every sample ({named(ids)}), so that no "
        "response is rewarded there: dph audit finds such prompts."
    )


def histogram(name: str, prompts: Sequence[int]) -> list[str]:
    """A line for each number of correct samples, with the prompts that have so many, below a headline.

    Args:
        name: of the numbers.
        prompts: with 0, 1, ... correct samples.
    """
    scale = BAR_WIDTH / (max(prompts, default=0) or 1)
    bars = enumerate(prompts)
    return [f"{name:>13}  prompts"] + [
        f"{n:>13} {count:>8,}  {'#' * round(scale * count)}".rstrip() for n, count in bars
    ]


def number_of(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
