"""tables.md of an evaluation: the paper's Tables 1-4 and 8 with its figures above ours, and the tables of each split.

A method is shown below the paper's method of the same name: base, grpo, dapo, rkl, dph_f, dph_js (generator form, eta
0.2), alpha_02, dph_js_005, dph_js_def, ... (paper.json has all of them).
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from rl.common import atomic_write
from rl.data.benchmarks import BENCHMARKS
from rl.evaluation.measures import TESTED, metrics_for
from rl.evaluation.spec import BASE, BASE_AGAIN, split_name
from rl.evaluation.table import Cell, Row, Table, markdown
from rl.evaluation.tables import counted, metric_cell, tests_table, values_table

OURS, PAPER = "ours", "paper"
_CAPTIONS = {
    "1": "Bird and Spider",
    "2": "Bird and Spider",
    "3": "Out-of-domain math, Pass@k",
    "4": "Math, Pass@k",
    "8": "Math, Mean@k",
}


@dataclass(frozen=True)
class PaperRow:
    """A method's row.

    Attributes:
        method: name in evaluate.models of the method to show below it.
        values: in per cent, one per column; None if the paper has none.
    """

    method: str
    label: str
    group: str | None
    values: tuple[float | None, ...]
    average: float | None = None


@dataclass(frozen=True)
class PaperTable:
    """One model's block of a table."""

    number: str
    setting: str
    model: str
    task: str  # sql or math
    columns: tuple[tuple[str, str], ...]  # (benchmark, metric), such as (bird, pass@8)
    rows: tuple[PaperRow, ...]


@cache
def paper_tables() -> tuple[PaperTable, ...]:
    """The paper's Tables 1-4 and 8, in its order, from paper.json."""
    content = json.loads((Path(__file__).parent / "paper.json").read_text(encoding="utf-8"))
    return TypeAdapter(tuple[PaperTable, ...]).validate_python(content["tables"])


def tables_of(report: dict, setting: str | None) -> list[Table]:
    """The paper's tables that share a benchmark with the report, then tables of every split.

    Args:
        report: the content of report.json.
        setting: the paper's experiment to compare with; None: none of them.
    """
    labels = report["_labels"]
    tables = [
        _paper_table(table, report)
        for table in paper_tables()
        if table.setting == setting and any(name in report[BASE] for name, _ in table.columns)
    ]
    for split in report[BASE]:
        summaries = {name: report[name][split] for name in labels}
        n = summaries[BASE]["n"]
        metrics = metrics_for(TESTED, n, report["_solved_in"])
        tables.append(values_table(summaries, metrics, labels, counted(split_name(split), summaries, n)))
        tests = tests_table(split, report["_tests"], labels)
        tables += [tests] if tests.rows else []
    return tables


def _paper_table(table: PaperTable, report: dict) -> Table:
    rows: list[Row] = []
    group, is_sql, labels = None, table.task == "sql", report["_labels"]
    for row in table.rows:
        if row.group and row.group != group:
            group = row.group
            rows.append(Row(group, "", ()))
        values = [*row.values, *([] if is_sql else [row.average])]
        # With the decimals that the paper prints, at least one.
        digits = [max(1, len(f"{value or 0:.4f}".rstrip("0").partition(".")[2])) for value in values]
        cells = [None if of is None else Cell(of, digits=count) for of, count in zip(values, digits, strict=True)]
        rows.append(Row(row.label, PAPER, cells))
        if row.method in labels:
            rows.append(_our_row(row.label, table, report[row.method]))
    of_paper = {row.method for row in table.rows}
    if others := [name for name in labels if name not in of_paper and name != BASE_AGAIN]:
        rows.append(Row("Not in the paper", "", ()))
        rows += [_our_row(labels[name], table, report[name]) for name in others]
    caption = (
        f"{_CAPTIONS[table.number]}: {table.model}, Table {table.number} of the paper and ours, with 95 % intervals "
        "over problems."
    )
    columns = [(BENCHMARKS[name].label, metric.capitalize()) for name, metric in table.columns]
    if not is_sql:
        columns = [*((metric, benchmark) for benchmark, metric in columns), ("", "Avg")]
    return Table(caption, tuple(columns), tuple(rows))


def _our_row(label: str, table: PaperTable, of_splits: dict[str, dict]) -> Row:
    cells = [_cell(of_splits.get(name), metric) for name, metric in table.columns]
    if table.task == "math":
        # An average of some benchmarks only could not be compared between methods.
        values = [float(cell.value) for cell in cells if cell]
        cells.append(Cell(sum(values) / len(values), digits=2) if len(values) == len(cells) else None)
    return Row(label, OURS, tuple(cells))


def _cell(summary: dict | None, metric: str) -> Cell | None:
    """A metric of report.json in its display unit; None if undefined."""
    if summary is None:
        return None
    if metric.startswith("mean@"):  # the mean of all samples, however many: its expectation does not depend on k
        metric = f"mean@{next(iter(summary['mean@k']))}"
    return metric_cell(summary, metric)


def write_tables(report: dict, out: Path, setting: str | None) -> Path:
    """Write tables.md and return its path."""
    path = out / "tables.md"
    atomic_write.write_text(path, "\n".join(markdown(table) for table in tables_of(report, setting)))
    return path
