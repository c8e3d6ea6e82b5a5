"""The audit's results: a table of the problems to look at, and a summary."""

import csv
import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from rl.common.atomic_write import replacing
from rl.common.errors import UserError
from rl.scorer.audit.check import OUTCOMES, Finding, Query
from rl.scorer.audit.problems import Dataset, Problem, import_parquet

COLUMNS = ("id", "file", "db_id", "gold_sql", "outcome", "seconds", "error")
_SLOWEST = 5
_SHOWN_SQL_CHARS = 80


def check_out(path: Path) -> None:
    """Raise UserError for a table that cannot be written, before anything has run."""
    if path.suffix not in _WRITERS:
        raise UserError(f"--out {path} is none of {', '.join(_WRITERS)}; give it one of these suffixes.")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise UserError(f"--out {path} lies in no directory that can be written to; create it or give another.")


def table(problems: list[Problem], findings: dict[Query, Finding]) -> list[dict]:
    """One row for each problem whose gold is not as it should be, in the order of the files."""
    rows = []
    for problem in problems:
        finding = findings[problem.query]
        if finding.outcome != "gold":
            seconds = round(finding.seconds, 3)
            rows.append(asdict(problem) | {"outcome": finding.outcome, "seconds": seconds, "error": finding.error})
    return rows


def write(rows: list[dict], path: Path) -> None:
    """Write the table in the format of its suffix, atomically."""
    with replacing(path) as temporary:
        _WRITERS[path.suffix](rows, temporary)


def summary(dataset: Dataset, findings: dict[Query, Finding]) -> str:
    """Counts by outcome, the slowest queries, and what was not checked."""
    problems = Counter(findings[problem.query].outcome for problem in dataset.problems)
    queries = Counter(finding.outcome for finding in findings.values())
    lines = [f"{dataset.rows} rows, {len(dataset.problems)} SQL questions, {len(findings)} different gold queries."]
    if dataset.other:
        sources = ", ".join(f"{source} {count}" for source, count in dataset.other.most_common())
        lines.append(f"{dataset.other.total()} rows are no SQL questions and were not checked: {sources}.")
    lines.append(f"{'outcome':<18}{'questions':>10}{'queries':>10}")
    lines += [f"{name:<18}{problems[name]:>10}{queries[name]:>10}" for name in OUTCOMES if queries[name]]
    lines.append("Slowest queries:")
    slowest = sorted(findings.items(), key=lambda item: -item[1].seconds)[:_SLOWEST]
    lines += [f"{finding.seconds:>9.2f} s  {db_id}  {_shown(gold_sql)}" for (db_id, gold_sql), finding in slowest]
    return "\n".join(lines) + "\n"


def _shown(sql: str) -> str:
    text = " ".join(sql.split())
    return text if len(text) <= _SHOWN_SQL_CHARS else text[: _SHOWN_SQL_CHARS - 3] + "..."


def _write_csv(rows: list[dict], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


def _write_jsonl(rows: list[dict], path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _write_parquet(rows: list[dict], path: Path) -> None:
    parquet = import_parquet()
    import pyarrow

    numbers = all(isinstance(row["id"], int) for row in rows)
    types = {"id": pyarrow.int64() if numbers else pyarrow.string(), "seconds": pyarrow.float64()}
    schema = pyarrow.schema([(name, types.get(name, pyarrow.string())) for name in COLUMNS])
    if not numbers:
        rows = [row | {"id": str(row["id"])} for row in rows]
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema), path)


_WRITERS: dict[str, Callable[[list[dict], Path], None]] = {
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
}
