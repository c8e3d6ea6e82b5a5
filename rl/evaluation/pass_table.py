"""The table that an evaluation prints at its end."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from rl.data.sample_summary import summarize
from rl.evaluation.spec_writer import GREEDY, SAMPLED
from rl.metrics.pass_at_k import SOLVED_IN

HEAD = ("model", "split", "prompts", "greedy", "Pass@1", f"Pass@{SOLVED_IN}", "Pass@n", "n")
_NAMES = 2  # leading columns that are names, the others are numbers


def pass_table(drawn: Mapping[str, Mapping[str, Path]]) -> str:
    """A line per model and split; "-" where a value was not sampled.

    Args:
        drawn: {model: {file name: finished samples file}}.

    Raises:
        UserError: a file cannot be read.
    """
    rows = [HEAD, *(row for model, files in drawn.items() for row in _rows(model, files))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < _NAMES else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def _rows(model: str, files: Mapping[str, Path]) -> Iterator[tuple[str, ...]]:
    for name, path in files.items():
        if name.endswith(GREEDY):
            continue
        split, found = name.removesuffix(SAMPLED), summarize(path)
        greedy = files.get(f"{split}{GREEDY}")
        prompts = str(found.prompts_by_correct.total())
        values = [
            None if greedy is None else summarize(greedy).pass_at(1),
            found.pass_at(1),
            found.pass_at(SOLVED_IN) if found.n >= SOLVED_IN else None,
            found.pass_at(found.n),
        ]
        yield (model, split, prompts, *("-" if value is None else f"{value:.4f}" for value in values), str(found.n))
