"""The table that an evaluation prints at its end."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from rl.data.sample_summary import summarize
from rl.evaluation.spec_writer import GREEDY, SAMPLED
from rl.evaluation.table import Cell, Row, Table, as_text, plain_columns
from rl.metrics.pass_at_k import SOLVED_IN


def pass_table(drawn: Mapping[str, Mapping[str, Path]]) -> str:
    """A line per model and split; "-" where a value was not sampled.

    Args:
        drawn: {model: {file name: finished samples file}}.

    Raises:
        UserError: a file cannot be read.
    """
    columns = plain_columns("split", "prompts", "greedy", "Pass@1", f"Pass@{SOLVED_IN}", "Pass@n", "n")
    rows = [row for model, files in drawn.items() for row in _rows(model, files)]
    return as_text(Table("", "", columns, rows, head="model"))


def _rows(model: str, files: Mapping[str, Path]) -> Iterator[Row]:
    for name, path in files.items():
        if name.endswith(GREEDY):
            continue
        split, found = name.removesuffix(SAMPLED), summarize(path)
        greedy = files.get(f"{split}{GREEDY}")
        values = [
            None if greedy is None else summarize(greedy).pass_at(1),
            found.pass_at(1),
            found.pass_at(SOLVED_IN) if found.n >= SOLVED_IN else None,
            found.pass_at(found.n),
        ]
        cells = [None if value is None else Cell(value, digits=4) for value in values]
        counts = [Cell(number, digits=0) for number in (found.prompts_by_correct.total(), found.n)]
        yield Row(model, "", [Cell(split), counts[0], *cells, counts[1]])
