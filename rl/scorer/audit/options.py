"""Options of the gold audit, apart from the audit itself so that --help loads neither pydantic nor Arrow."""

import argparse
import math
from pathlib import Path

_DEFAULT_CONFIG = Path(__file__).resolve().parents[1] / "sql.yaml"


def main(arguments: list[str] | None = None) -> int:
    from rl.scorer.audit.__main__ import main

    return main(arguments)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rl.scorer.audit",
        description="Run every gold query of a dataset; list those that fail, time out or return nothing.\n\n"
        "The queries run as the server runs them: in its worker processes, read-only, within the limits of the\n"
        "settings. A bad gold query is a finding, not an error of the audit. Exit code 0; 2 for a wrong argument,\n"
        "file or setting; 1 if some queries could not be checked.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="DATA.parquet", help="in the project's row format")
    parser.add_argument("--database-path", type=Path, help="folder of the db_ids, in place of the settings'")
    parser.add_argument(
        "-c", "--config", type=Path, default=_DEFAULT_CONFIG, help="the server's settings (default: rl/scorer/sql.yaml)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("gold_audit.csv"), help="the table: .csv, .jsonl or .parquet (%(default)s)"
    )
    parser.add_argument("--num-instances", type=_positive_int, help="worker processes, in place of the settings'")
    parser.add_argument("--gold-seconds", type=_positive_float, help="a query's time limit, in place of the settings'")
    return parser


def _positive_int(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def _positive_float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value
