"""Options of the gold audit, in a module of their own so that --help loads neither pydantic nor Arrow."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from rl.common.errors import UserError

# Outcomes of a gold query that is not as it should be: it fails or returns nothing, or it runs and is doubtful.
FAILURES = ("empty", "all_null", "gold_error", "gold_timeout", "unknown_database", "infra_error")
DOUBTS = ("tie", "row_order", "order", "distinct", "clock", "two_golds")
OUTCOMES = (*FAILURES, *DOUBTS)

_DEFAULT_CONFIG = Path(__file__).resolve().parents[1] / "sql.yaml"


def main(arguments: list[str] | None = None) -> int:
    from rl.scorer.audit.command import main

    return main(arguments)


def drop_for(options: argparse.Namespace, *, drop: str, unseen: bool) -> Sequence[str]:
    """The outcomes of --drop-for, or the default ones.

    Args:
        drop: the option that --drop-for is of.
        unseen: whether the audit looked for no doubts.

    Raises:
        UserError: they would drop nothing.
    """
    if options.drop_for is None:
        return FAILURES
    if getattr(options, drop) is None:
        raise UserError(f"--drop-for says which rows --{drop} leaves out: give --{drop} too.")
    if doubts := [outcome for outcome in options.drop_for if unseen and outcome in DOUBTS]:
        raise UserError(f"--drop-for {' '.join(doubts)} has no effect with --no-doubts: leave one of them out.")
    return options.drop_for


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rl.scorer.audit",
        description="Run every gold query of a dataset. List those that fail, time out or return nothing, and those\n"
        "whose result is doubtful: ties under LIMIT, results that depend on the order of a table, on DISTINCT or on\n"
        "the time of day, ambiguous orders of rows, and two golds for one prompt.\n\n"
        "The queries run as in the server: in its worker processes, read-only, within the limits of the settings.\n"
        "A bad gold query is a finding, not an error of the audit. A stopped audit resumes when it is run again.\n"
        "Exit code 0; 2 for a wrong argument, file or setting; 1 if some queries could not be checked.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="DATA.parquet", help="in the project's row format")
    parser.add_argument("--database-path", type=Path, help="folder of the db_ids, instead of the settings'")
    parser.add_argument(
        "-c", "--config", type=Path, default=_DEFAULT_CONFIG, help="the server's settings (default: rl/scorer/sql.yaml)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="the table, a .csv (default: DATA.gold_audit.csv beside DATA.parquet)",
    )
    parser.add_argument(
        "--drop", type=Path, metavar="OUT.parquet", help="write DATA.parquet (one) without the rows in the table"
    )
    parser.add_argument(
        "--drop-for",
        nargs="+",
        choices=OUTCOMES,
        metavar="OUTCOME",
        help=f"with --drop, for which outcomes (default: {' '.join(FAILURES)}; others: {' '.join(DOUBTS)})",
    )
    parser.add_argument(
        "--no-doubts", dest="doubts", action="store_false", help="run each query once, and look only for failures"
    )
    parser.add_argument("--num-instances", type=int, help="worker processes, instead of the settings'")
    parser.add_argument("--gold-seconds", type=float, help="a query's time limit, instead of the settings'")
    return parser
