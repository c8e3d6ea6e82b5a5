"""`dph audit`: a table of the questions whose gold answer cannot reward anything, and the data without them."""

import argparse
import csv
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rl.common.atomic_write import replacing
from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.common.outcomes import INFRA_ERROR

if TYPE_CHECKING:
    from rl.scorer.audit.golds import Dataset, Finding

COLUMNS = ("id", "file", "db_id", "gold_sql", "outcome", "seconds", "error")
_DEFAULT_CONFIG = Path(__file__).resolve().parents[1] / "sql.yaml"
_SHOWN = 20
_SHOWN_CHARS = 80


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dph audit",
        description="Run every gold query of a dataset once, as the server does: in its worker processes, read-only,\n"
        "within the limits of the settings. List those that fail, time out or return nothing, and the right answers\n"
        "of mathematical problems that the scorer cannot read.\n"
        "Exit code 0; 2 for a wrong argument, file or setting; 1 if some queries could not be checked.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="DATA.parquet", help="in the project's row format")
    parser.add_argument("--database-path", type=Path, help="folder of the db_ids, instead of the settings'")
    parser.add_argument(
        "-c", "--config", type=Path, default=_DEFAULT_CONFIG, help="the server's settings (default: rl/scorer/sql.yaml)"
    )
    parser.add_argument("--workers", type=int, metavar="N", help="processes, instead of the settings' num_instances")
    parser.add_argument("--out", type=Path, help="the table (default: DATA.gold_audit.csv beside DATA.parquet)")
    parser.add_argument(
        "--drop", type=Path, metavar="OUT.parquet", help="write DATA.parquet (one) without the rows in the table"
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the audit and return its exit code."""
    options = parser().parse_args(arguments)
    # The table has queries that took too long; their killed workers need no warning.
    logging.getLogger("rl.scorer").setLevel(logging.ERROR)
    with user_errors_exit():
        return _audit(options)


def _audit(options: argparse.Namespace) -> int:
    from rl.scorer.audit.golds import check, read_dataset
    from rl.scorer.config_file import load_settings

    out = options.out or options.files[0].with_name(f"{options.files[0].stem}.gold_audit.csv")
    _check_outputs(options.files, out, options.drop)
    settings = load_settings(
        options.config, None, {"database_path": options.database_path}, {"num_instances": options.workers}
    )
    dataset = read_dataset(options.files)
    findings = check(dataset.problems, settings)
    if all(finding.outcome == "unknown_database" for finding in findings):
        raise UserError(
            f"No database of the rows is found ({findings[0].error}): pass --database-path DIR, the folder of the "
            "db_ids."
        )
    bad = [finding for finding in findings if finding.outcome != "gold"]
    _write_table(bad, out)
    sys.stdout.write(_summary(dataset, findings, bad) + f"Wrote {len(bad)} rows to {out}.\n")
    unchecked = sum(finding.outcome == INFRA_ERROR for finding in bad)
    if unchecked:
        unwritten = f", and {options.drop} is not written" if options.drop else ""
        sys.stderr.write(
            f"Error: {unchecked} questions could not be checked ({INFRA_ERROR} in the table){unwritten}; run the audit "
            "again.\n"
        )
        return 1
    if options.drop is not None:
        dropped = {finding.problem.position for finding in bad}
        kept = _write_without(dropped, options.files[0], options.drop)
        sys.stdout.write(f"Wrote {kept} of {kept + len(dropped)} rows to {options.drop}.\n")
    return 0


def _check_outputs(files: list[Path], out: Path, drop: Path | None) -> None:
    """Raise UserError for an output that cannot be written, before anything has run."""
    for option, path in (("--out", out), ("--drop", drop)):
        if path is None:
            continue
        if not os.access(path.parent, os.W_OK):
            raise UserError(f"The folder of {option} {path} cannot be written to; create it or give another.")
        if path.resolve() in (file.resolve() for file in files):
            raise UserError(f"{option} {path} would replace a file of the audit; give another path.")
    if drop is not None and len(files) > 1:
        raise UserError(f"--drop takes the rows of one DATA.parquet, not of {len(files)}; audit one after the other.")


def _write_table(bad: "Iterable[Finding]", path: Path) -> None:
    """Write a CSV with a row for each question, atomically."""
    rows = [
        (problem.id, problem.file, problem.gold.db_id, problem.gold.sql, outcome, round(seconds, 3), error)
        for problem, outcome, seconds, error in bad
    ]
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])


def _write_without(dropped: set[int], source: Path, path: Path) -> int:
    """Write the rows of `source` that are not at these positions, and return their number."""
    import pyarrow as pa
    from pyarrow import parquet

    content = parquet.ParquetFile(source)
    count, start = content.metadata.num_rows, 0
    if len(dropped) == count:
        raise UserError(f"--drop {path} would have no rows: all {count} of {source} failed; correct them first.")
    with replacing(path) as temporary, parquet.ParquetWriter(temporary, content.schema_arrow) as writer:
        for batch in content.iter_batches():
            kept = pa.array([start + i not in dropped for i in range(len(batch))], pa.bool_())
            writer.write_batch(batch.filter(kept))
            start += len(batch)
    return count - len(dropped)


def _summary(dataset: "Dataset", findings: "list[Finding]", bad: "list[Finding]") -> str:
    """Counts of questions by outcome, the first of those in the table, and the rows that were not checked."""
    lines = [f"{dataset.rows} rows, {len(findings)} questions."]
    if dataset.other:
        sources = ", ".join(f"{source} {count}" for source, count in dataset.other.most_common())
        lines.append(f"{dataset.other.total()} rows are neither SQL nor math and were not checked: {sources}.")
    counts = Counter(finding.outcome for finding in findings)
    lines += [f"{outcome:<18}{count:>8}" for outcome, count in counts.most_common()]
    for problem, outcome, _, error in bad[:_SHOWN]:
        what = " ".join(f"{outcome}: {error}".split()) if error else outcome
        lines.append(f"  {problem.id}  {problem.gold.db_id or problem.gold.sql[:_SHOWN_CHARS]}  {what[:_SHOWN_CHARS]}")
    if len(bad) > _SHOWN:
        lines.append(f"  ... and {len(bad) - _SHOWN} more, which are in the table.")
    return "\n".join(lines) + "\n"
