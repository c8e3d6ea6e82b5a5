"""Tables of results: the paper's Tables 1-4 and 8 with its figures above ours, and one table per split.

    python -m rl.evaluation.paper.tables eval_sql/report.json eval_math/report.json --out DIR --paper llama-sql

writes DIR/tables.md and DIR/tables.json. A method is shown below the paper's method of the same name:
base, grpo, dapo, rkl, dph_f, dph_js (generator form, eta 0.2), alpha_02, dph_js_005, dph_js_def, ... (paper.json has
all of them).
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from rl.common import atomic_write
from rl.common.cli import output_folder, user_errors_exit
from rl.common.errors import UserError, file_errors
from rl.configuration.evaluate import PAPER_EXPERIMENTS
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
# The layouts of results that are not compared with an experiment of the paper.
_PLAIN_LAYOUTS = (("1", "llama-sql"), ("4", "llama-math"), ("8", "llama-math"))


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


@dataclass(frozen=True)
class Results:
    """The content of stored reports: summaries by method and split, labels of methods, and paired tests."""

    summaries: dict[str, dict[str, dict]]
    labels: dict[str, str]
    tests: list[dict]  # paired_test.PairedTest
    solved_in: dict[str, int]  # by split

    @property
    def splits(self) -> list[str]:
        return list(dict.fromkeys(split for of_method in self.summaries.values() for split in of_method))


def results_of(reports: Sequence[dict]) -> Results:
    """Merge several reports.

    Raises:
        UserError: two of them have the same method on the same split.
    """
    summaries: dict[str, dict[str, dict]] = {}
    labels: dict[str, str] = {}
    solved_in: dict[str, int] = {}
    for report in reports:
        labels |= report["_labels"]
        for name in report["_labels"]:
            of_method = summaries.setdefault(name, {})
            for split, summary in report[name].items():
                if split in of_method:
                    raise UserError(f"Two reports have {name} on {split}: give one of them.")
                of_method[split] = summary
                solved_in[split] = report["_solved_in"]
    return Results(summaries, labels, [test for report in reports for test in report["_tests"]], solved_in)


def tables_of(results: Results, setting: str | None) -> list[Table]:
    """The paper's tables that share a benchmark with the results, then tables of every split.

    Args:
        setting: the paper's experiment to compare with; None: the paper's layouts without its figures.
    """

    def applies(table: PaperTable) -> bool:
        chosen = table.setting == setting if setting else (table.number, table.setting) in _PLAIN_LAYOUTS
        return chosen and any(name in results.splits for name, _ in table.columns)

    tables = [_paper_table(table, results, setting) for table in paper_tables() if applies(table)]
    for split in results.splits:
        tests = tests_table(split, results.tests, results.labels)
        tables += [_split_table(results, split), *([tests] if tests.rows else [])]
    return tables


def _paper_table(table: PaperTable, results: Results, setting: str | None) -> Table:
    rows: list[Row] = []
    group, is_sql = None, table.task == "sql"
    for row in table.rows:
        pair: list[Row] = []
        if setting is not None:
            values = [*row.values, *([] if is_sql else [row.average])]
            cells = tuple(None if value is None else Cell(value, digits=_digits(value)) for value in values)
            pair.append(Row(row.label, PAPER, cells))
        if row.method in results.summaries:
            pair.append(_our_row(row.method, row.label, table, results))
        if pair and row.group and row.group != group:
            group = row.group
            rows.append(Row(group, "", ()))
        rows += pair
    of_paper = {row.method for row in table.rows}
    if others := [name for name in results.summaries if name not in of_paper and name != BASE_AGAIN]:
        rows.append(Row("Not in the paper", "", ()))
        rows += [_our_row(name, results.labels[name], table, results) for name in others]
    caption = _CAPTIONS[table.number]
    if setting is None:
        caption += f": the layout of Table {table.number} of the paper."
    else:
        caption += f": {table.model}, Table {table.number} of the paper and ours, with 95 % intervals over problems."
    columns = [(BENCHMARKS[name].label, metric.capitalize()) for name, metric in table.columns]
    if not is_sql:
        columns = [*((metric, benchmark) for benchmark, metric in columns), ("", "Avg")]
    return Table(caption, tuple(columns), tuple(rows))


def _our_row(method: str, label: str, table: PaperTable, results: Results) -> Row:
    cells = [_cell(results.summaries[method].get(name), metric) for name, metric in table.columns]
    if table.task == "math":
        # An average of some benchmarks only could not be compared between methods.
        values = [float(cell.value) for cell in cells if cell]
        cells.append(Cell(sum(values) / len(values), digits=2) if len(values) == len(cells) else None)
    return Row(label, OURS, tuple(cells))


def _split_table(results: Results, split: str) -> Table:
    summaries = {name: of[split] for name, of in results.summaries.items() if split in of}
    n = (summaries.get(BASE) or next(iter(summaries.values())))["n"]
    caption = counted(split_name(split), summaries, n)
    return values_table(summaries, metrics_for(TESTED, n, results.solved_in[split]), results.labels, caption)


def _cell(summary: dict | None, metric: str) -> Cell | None:
    """A metric of report.json in its display unit; None if undefined."""
    if summary is None:
        return None
    if metric.startswith("mean@"):  # the mean of all samples, however many: its expectation does not depend on k
        metric = f"mean@{next(iter(summary['mean@k']))}"
    return metric_cell(summary, metric)


def _digits(value: float) -> int:
    """Decimals that the paper prints, at least one."""
    return max(1, len(f"{value:.4f}".rstrip("0").partition(".")[2]))


def write_tables(reports: Sequence[dict], out: Path, setting: str | None) -> list[Path]:
    """Write tables.md and tables.json; returns their paths."""
    tables = tables_of(results_of(reports), setting)
    texts = {
        "tables.md": "\n".join(markdown(table) for table in tables),
        "tables.json": json.dumps([asdict(table) for table in tables], indent=1, ensure_ascii=False) + "\n",
    }
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        atomic_write.write_text(out / name, text)
    return [out / name for name in texts]


def _read_report(path: Path) -> dict:
    try:
        with file_errors(f"The report {path}", "read"):
            report = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"The report {path} is not JSON: make it again.") from error
    if not isinstance(report, dict) or not {"_labels", "_tests", "_solved_in"} <= report.keys():
        raise UserError(f"{path} is not a report.json of this version: make it again from its samples.")
    return report


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m rl.evaluation.paper.tables",
        description="Tables in the paper's layout from stored reports: tables.md and tables.json.",
    )
    parser.add_argument("reports", type=Path, nargs="+", metavar="report.json", help="of one or several evaluations")
    parser.add_argument("--out", type=output_folder, required=True, help="folder for the tables")
    parser.add_argument("--paper", choices=PAPER_EXPERIMENTS, help="the paper's figures to show above ours")
    options = parser.parse_args(arguments)
    with user_errors_exit():
        written = write_tables([_read_report(path) for path in options.reports], options.out, options.paper)
    sys.stdout.write("".join(f"{path}\n" for path in written))


if __name__ == "__main__":
    main()
