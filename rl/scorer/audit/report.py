"""The audit's results: what it prints, a table of the questions to look at, and the file without them."""

import csv
import json
import os
from collections import Counter
from pathlib import Path

from rl.common.atomic_write import replacing
from rl.common.errors import UserError
from rl.scorer.audit.check import OUTCOMES, Query
from rl.scorer.audit.problems import Dataset, Problem, import_parquet
from rl.scorer.sql_scoring import GoldCheck

COLUMNS = ("id", "file", "db_id", "gold_sql", "outcome", "seconds", "error")
_SUFFIXES = (".csv", ".jsonl", ".parquet")
_SLOWEST = 5
_SHOWN_FAILURES = 20
_SHOWN_CHARS = 80
# What is wrong with a query that runs.
_DOUBTS = {"empty": "the query returns no rows", "all_null": "the query returns nothing but NULL"}

Failures = list[tuple[Problem, GoldCheck]]


def check_out(files: list[Path], out: Path, drop: Path | None) -> None:
    """Raise UserError for an output that cannot be written, before anything has run."""
    for option, path, suffixes in (("--out", out, _SUFFIXES), ("--drop", drop, (".parquet",))):
        if path is None:
            continue
        if path.suffix not in suffixes:
            raise UserError(f"{option} {path} is none of {', '.join(suffixes)}; give it one of these suffixes.")
        if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            raise UserError(f"{option} {path} lies in no directory that can be written to; create it or give another.")
        if path.resolve() in (file.resolve() for file in (*files, *([] if path is out else [out]))):
            raise UserError(f"{option} {path} would replace another file of the audit; give another path.")
    if drop is not None and len(files) > 1:
        raise UserError(f"--drop takes the rows of one DATA.parquet, not of {len(files)}; audit one after the other.")


def failures(problems: list[Problem], findings: dict[Query, GoldCheck]) -> Failures:
    """The problems whose gold is not as it should be, in the order of the files."""
    found = ((problem, findings[problem.query]) for problem in problems)
    return [(problem, finding) for problem, finding in found if finding.outcome != "gold"]


def write_table(failed: Failures, path: Path) -> None:
    """Write a row for each failure in the format of the path's suffix, atomically."""
    rows = [
        (problem.id, problem.file, *problem.query, finding.outcome, round(finding.seconds, 3), finding.error)
        for problem, finding in failed
    ]
    with replacing(path) as temporary:
        if path.suffix == ".parquet":
            _write_parquet(rows, temporary)
            return
        with temporary.open("w", encoding="utf-8", newline="") as file:
            if path.suffix == ".csv":
                csv.writer(file).writerows([COLUMNS, *rows])
            else:
                lines = (json.dumps(dict(zip(COLUMNS, row, strict=True)), ensure_ascii=False) for row in rows)
                file.writelines(f"{line}\n" for line in lines)


def _write_parquet(rows: list[tuple], path: Path) -> None:
    parquet = import_parquet()
    import pyarrow

    numbers = all(isinstance(row[0], int) for row in rows)
    types = {"id": pyarrow.int64() if numbers else pyarrow.string(), "seconds": pyarrow.float64()}
    schema = pyarrow.schema([(name, types.get(name, pyarrow.string())) for name in COLUMNS])
    cells = [dict(zip(COLUMNS, row if numbers else (str(row[0]), *row[1:]), strict=True)) for row in rows]
    parquet.write_table(pyarrow.Table.from_pylist(cells, schema), path)


def write_without(failed: Failures, source: Path, path: Path) -> str:
    """Write the rows of `source` that have not failed, every column as it is, and say what was dropped and why."""
    parquet = import_parquet()
    dropped = {problem.position for problem, _ in failed}
    content = parquet.ParquetFile(source)
    count, start = content.metadata.num_rows, 0
    if len(dropped) == count:
        raise UserError(f"--drop {path} would have no rows: all {count} of {source} failed; correct them first.")
    with replacing(path) as temporary, parquet.ParquetWriter(temporary, content.schema_arrow) as writer:
        for batch in content.iter_batches():
            writer.write_batch(batch.take([i for i in range(len(batch)) if start + i not in dropped]))
            start += len(batch)
    reasons = Counter(finding.outcome for _, finding in failed)
    why = "".join(f"{', ' if i else ': '}{name} {number}" for i, (name, number) in enumerate(reasons.most_common()))
    return f"Wrote {count - len(dropped)} of {count} rows to {path}; dropped {len(dropped)}{why}.\n"


def summary(dataset: Dataset, findings: dict[Query, GoldCheck], failed: Failures, root: Path | None) -> str:
    """Counts by outcome, the slowest queries, what failed and what was not checked."""
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
    lines += [f"{finding.seconds:>9.2f} s  {db_id}  {_shortened(gold_sql)}" for (db_id, gold_sql), finding in slowest]
    if failed:
        lines.append("Failures (id, database, what is wrong):")
    for problem, finding in failed[:_SHOWN_FAILURES]:
        wrong = f"{finding.outcome}: {finding.error or _DOUBTS[finding.outcome]}"
        lines.append(f"  {problem.id}  {problem.db_id}  {_shortened(wrong)}")
    if len(failed) > _SHOWN_FAILURES:
        lines.append(f"  ... and {len(failed) - _SHOWN_FAILURES} more, which the table has.")
    if problems["unknown_database"] and root is not None:
        lines.append(f"Databases are looked for below {root}; if they lie elsewhere, pass --database-path DIR.")
    return "\n".join(lines) + "\n"


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "..."
