"""The audit's results: the printed summary, the table of questions to look at, and the data without them."""

import csv
import os
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from rl.common.atomic_write import replacing
from rl.common.errors import UserError
from rl.scorer.audit.check import Findings
from rl.scorer.audit.options import DOUBTS, FAILURES
from rl.scorer.audit.problems import Dataset, Problem, import_parquet

COLUMNS = ("id", "file", "db_id", "gold_sql", "outcome", "seconds", "error")
_SLOWEST = 5
_SHOWN_FAILURES = 20
_SHOWN_CHARS = 80
# Descriptions of what is wrong with a query that runs.
_IN_WORDS = {
    "empty": "the query returns no rows",
    "all_null": "the query returns nothing but NULL",
    "tie": "LIMIT cuts between rows with equal sort keys",
    "row_order": "the result changes with the order in which tables are read",
    "order": "rows are ordered by keys, and some keys are equal",
    "distinct": "the result depends on DISTINCT",
    "clock": "the result changes with the time of day: the query itself, run again, would be wrong",
}


class Entry(NamedTuple):
    """A line of the table. outcome: one of FAILURES or DOUBTS."""

    problem: Problem
    outcome: str
    seconds: float
    error: str | None


def check_out(files: list[Path], out: Path, drop: Path | None) -> None:
    """Raise UserError for an output that cannot be written, before anything has run."""
    for option, path, suffix in (("--out", out, ".csv"), ("--drop", drop, ".parquet")):
        if path is None:
            continue
        if path.suffix != suffix:
            raise UserError(f"{option} {path} does not end with {suffix}; give it this suffix.")
        if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            raise UserError(f"The folder of {option} {path} cannot be written to; create it or give another.")
        if path.resolve() in (file.resolve() for file in files):
            raise UserError(f"{option} {path} would replace a file of the audit; give another path.")
    if drop is not None and len(files) > 1:
        raise UserError(f"--drop takes the rows of one DATA.parquet, not of {len(files)}; audit one after the other.")


def entries(problems: list[Problem], findings: Findings, contradicted: Mapping[Problem, str]) -> list[Entry]:
    """What is wrong with each problem, in the order of the files.

    Args:
        contradicted: the reason for each problem that another one contradicts.
    """
    found = []
    for problem in problems:
        finding = findings[problem.query]
        if finding.outcome != "gold":
            found.append(Entry(problem, finding.outcome, finding.seconds, finding.error))
        doubts = [doubt for doubt in finding.doubts if doubt != "distinct" or not problem.asks_distinct]
        found += [Entry(problem, doubt, finding.seconds, _IN_WORDS[doubt]) for doubt in doubts]
        if problem in contradicted:
            found.append(Entry(problem, "two_golds", finding.seconds, contradicted[problem]))
    return found


def write_table(found: list[Entry], path: Path) -> None:
    """Write a CSV with a row for each entry, atomically."""
    rows = [
        (problem.id, problem.file, problem.query.db_id, problem.query.gold_sql, outcome, round(seconds, 3), error)
        for problem, outcome, seconds, error in found
    ]
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])


def write_without(found: list[Entry], drop_for: Collection[str], source: Path, path: Path) -> str:
    """Write the rows of `source` that have no entry with these outcomes. Returns a sentence about the dropped rows."""
    parquet = import_parquet()
    import pyarrow as pa

    dropped_for = {entry.problem.position: entry.outcome for entry in reversed(found) if entry.outcome in drop_for}
    dropped = dropped_for.keys()
    content = parquet.ParquetFile(source)
    count, start = content.metadata.num_rows, 0
    if len(dropped) == count:
        raise UserError(f"--drop {path} would have no rows: all {count} of {source} failed; correct them first.")
    with replacing(path) as temporary, parquet.ParquetWriter(temporary, content.schema_arrow) as writer:
        for batch in content.iter_batches():
            writer.write_batch(
                batch.filter(pa.array([start + i not in dropped for i in range(len(batch))], pa.bool_()))
            )
            start += len(batch)
    reasons = Counter(outcome for _, outcome in sorted(dropped_for.items()))
    why = "".join(f"{', ' if i else ': '}{name} {number}" for i, (name, number) in enumerate(reasons.most_common()))
    return f"Wrote {count - len(dropped)} of {count} rows to {path}; dropped {len(dropped)}{why}.\n"


def summary(dataset: Dataset, findings: Findings, found: list[Entry], root: Path | None) -> str:
    """Counts by outcome, the slowest queries, failures, doubts, and rows that were not checked."""
    problems = Counter(findings[problem.query].outcome for problem in dataset.problems)
    queries = Counter(finding.outcome for finding in findings.values())
    lines = [f"{dataset.rows} rows, {len(dataset.problems)} SQL questions, {len(findings)} different gold queries."]
    if dataset.other:
        sources = ", ".join(f"{source} {count}" for source, count in dataset.other.most_common())
        lines.append(f"{dataset.other.total()} rows are not SQL questions and were not checked: {sources}.")
    lines.append(f"{'outcome':<18}{'questions':>10}{'queries':>10}")
    lines += [f"{name:<18}{problems[name]:>10}{queries[name]:>10}" for name in ("gold", *FAILURES) if queries[name]]
    doubtful = Counter(entry.outcome for entry in found)
    if any(doubtful[name] for name in DOUBTS):
        of_queries = Counter(doubt for finding in findings.values() for doubt in finding.doubts)
        of_queries["two_golds"] = len({entry.problem.query for entry in found if entry.outcome == "two_golds"})
        lines.append("of gold, doubtful:")
        lines += [f"{name:<18}{doubtful[name]:>10}{of_queries[name]:>10}" for name in DOUBTS if doubtful[name]]
    lines.append("Slowest queries:")
    slowest = sorted(findings.items(), key=lambda item: -item[1].seconds)[:_SLOWEST]
    lines += [f"{of.seconds:>9.2f} s  {query.db_id}  {_shortened(query.gold_sql)}" for query, of in slowest]
    for title, names in (("Failures", FAILURES), ("Doubts", DOUBTS)):
        shown = [entry for entry in found if entry.outcome in names]
        if shown:
            lines.append(f"{title} (id, database, what is wrong):")
        for problem, outcome, _, error in shown[:_SHOWN_FAILURES]:
            wrong = f"{outcome}: {error or _IN_WORDS[outcome]}"
            lines.append(f"  {problem.id}  {problem.query.db_id}  {_shortened(wrong)}")
        if len(shown) > _SHOWN_FAILURES:
            lines.append(f"  ... and {len(shown) - _SHOWN_FAILURES} more, which are in the table.")
    if problems["unknown_database"] and root is not None:
        lines.append(f"Databases are looked for below {root}; if they are elsewhere, pass --database-path DIR.")
    return "\n".join(lines) + "\n"


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "..."
