"""`dph audit`: a table of the questions whose gold answer cannot reward anything, and the data without them.

Each distinct gold query runs once, as in the server: in its worker processes and within its limits.
"""

import argparse
import csv
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rl.common.atomic_write import replacing
from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.common.outcomes import INFRA_ERROR

if TYPE_CHECKING:
    from rl.scorer.sql.scoring import GoldCheck

COLUMNS = ("id", "file", "db_id", "gold_sql", "outcome", "error")
_DEFAULT_CONFIG = Path(__file__).resolve().with_name("sql.yaml")
_ROW_COLUMNS = ["id", "data_source", "reward_model"]


class Gold(NamedTuple):
    """What is run, or compared. sql: or the answer of a problem, if math."""

    db_id: str | None
    sql: str
    math: bool = False


class Question(NamedTuple):
    """The row at `position` (from 0) of its file."""

    id: int | str
    file: Path
    position: int
    gold: Gold


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
    # Help must not load pydantic.
    from rl.scorer.config_file import load_settings
    from rl.scorer.gold_checks import check_golds

    out = options.out or options.files[0].with_name(f"{options.files[0].stem}.gold_audit.csv")
    _check_outputs(options.files, out, options.drop)
    settings = load_settings(
        options.config, None, {"database_path": options.database_path}, {"num_instances": options.workers}
    )
    questions, others = _read(options.files)
    checks = check_golds(list(dict.fromkeys(question.gold for question in questions)), settings)
    if all(check.outcome == "unknown_database" for check in checks.values()):
        raise UserError(
            f"No database of the rows is found ({checks[questions[0].gold].error}): pass --database-path DIR, the "
            "folder of the db_ids."
        )
    bad = [question for question in questions if checks[question.gold].outcome != "gold"]
    with replacing(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *(_line(question, checks[question.gold]) for question in bad)])
    counts = Counter(checks[question.gold].outcome for question in questions)
    if others:
        listed = ", ".join(f"{source} {count}" for source, count in others.most_common())
        sys.stdout.write(f"{others.total()} rows are neither SQL nor math and were not checked: {listed}.\n")
    sys.stdout.write("".join(f"{outcome:<18}{count:>8}\n" for outcome, count in counts.most_common()))
    sys.stdout.write(f"Wrote {len(bad)} rows to {out}.\n")
    if unchecked := counts[INFRA_ERROR]:
        unwritten = f", and {options.drop} is not written" if options.drop else ""
        sys.stderr.write(
            f"Error: {unchecked} questions could not be checked ({INFRA_ERROR} in the table){unwritten}; run the audit "
            "again.\n"
        )
        return 1
    if options.drop is not None:
        dropped = {question.position for question in bad}
        kept = _write_without(dropped, options.files[0], options.drop)
        sys.stdout.write(f"Wrote {kept} of {kept + len(dropped)} rows to {options.drop}.\n")
    return 0


def _check_outputs(files: list[Path], out: Path, drop: Path | None) -> None:
    """Reject an output that cannot be written, before anything has run."""
    for option, path in (("--out", out), ("--drop", drop)):
        if path is None:
            continue
        if not os.access(path.parent, os.W_OK):
            raise UserError(f"The folder of {option} {path} cannot be written to; create it or give another.")
        if path.resolve() in (file.resolve() for file in files):
            raise UserError(f"{option} {path} would replace a file of the audit; give another path.")
    if drop is not None and len(files) > 1:
        raise UserError(f"--drop takes the rows of one DATA.parquet, not of {len(files)}; audit one after the other.")


def _line(question: Question, check: "GoldCheck") -> tuple:
    return question.id, question.file, question.gold.db_id, question.gold.sql, check.outcome, check.error


def _write_without(dropped: set[int], source: Path, path: Path) -> int:
    """Write the rows of `source` that are not at these positions, and return their number."""
    from pyarrow import parquet

    table = parquet.ParquetFile(source).read()
    kept = table.filter([position not in dropped for position in range(len(table))])
    if not len(kept):
        raise UserError(f"--drop {path} would have no rows: all {len(table)} of {source} failed; correct them first.")
    with replacing(path) as temporary:
        parquet.write_table(kept, temporary)
    return len(kept)


def _read(files: list[Path]) -> tuple[list[Question], Counter[str]]:
    """The questions of `files`, in order, and by data_source how many rows are neither SQL nor math.

    A question's reward_model.ground_truth has a gold_sql, or is the answer of a mathematical problem.
    """
    questions: list[Question] = []
    others: Counter[str] = Counter()
    for file in files:
        for position, row in enumerate(_rows(file)):
            truth = row["reward_model"].get("ground_truth") if isinstance(row["reward_model"], dict) else None
            if isinstance(truth, dict) and truth.get("gold_sql") is not None:
                db_id = None if truth.get("db_id") is None else str(truth["db_id"])
                questions.append(Question(row["id"], file, position, Gold(db_id, str(truth["gold_sql"]))))
            elif isinstance(truth, str | int) and not str(row["data_source"]).startswith("task:"):
                questions.append(Question(row["id"], file, position, Gold(None, str(truth), math=True)))
            else:
                others[str(row["data_source"])] += 1
    if not questions:
        sources = ", ".join(others) or "no rows"
        raise UserError(
            f"{', '.join(map(str, files))}: none of {others.total()} rows is a question ({sources}); give a parquet "
            "with db_id and gold_sql, or the answer of a mathematical problem, as reward_model.ground_truth."
        )
    return questions, others


def _rows(file: Path) -> Iterator[dict]:
    try:
        from rl.common.parquet_file import open_parquet, rows_in
    except ModuleNotFoundError:  # a server does without Arrow
        raise UserError("The audit reads parquet with pyarrow; install it: pip install '.[audit]'.") from None
    with open_parquet(file, _ROW_COLUMNS, "make it with dph prepare") as parquet:
        yield from rows_in(parquet, _ROW_COLUMNS)
