"""Command lines of the benchmarks: `dph prepare NAME` and data/*/prepare_*.py. Parsers load nothing heavy."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

from rl.common.cli import user_errors_exit
from rl.scorer.audit.options import DOUBTS, FAILURES, OUTCOMES

MAX_PROMPT_TOKENS = 16000  # data.max_prompt_length of the experiments
EXAMPLE_VALUES = 2
TEMPLATES = ("dph", "omnisql")
_SQL_OUTPUT = "data/sql/{name}_{split}.parquet"


def bird_parser() -> argparse.ArgumentParser:
    """Convert BIRD to the parquet that sampling, training and evaluation read.

    --input is a JSON list with db_id, question, evidence and SQL (dev: question_id and difficulty too). A row's id is
    10,000,000 for train, 20,000,000 for dev or 30,000,000 for test, plus the question_id or, if the file has none, the
    position in it: stable across runs, and unique across splits and benchmarks. Databases are only read. Rejected
    records are listed in OUTPUT.bad.jsonl. docs/howto/data.md says how to fetch the files.

    --variant mini and mini_pg (both dev) are BIRD mini-dev, mini_dev_sqlite.json and mini_dev_postgresql.json, as
    bird_mini and bird_mini_pg.
    """
    parser = _parser(bird_parser, _SQL_OUTPUT)
    parser.add_argument("--input", type=Path, nargs=1, required=True, metavar="FILE", help="train.json or dev.json")
    parser.add_argument("--variant", choices=("mini", "mini_pg"), help="of BIRD mini-dev (default: BIRD itself)")
    parser.add_argument(
        "--db-id",
        default="postgresql/{db_id}",
        metavar="TEXT",
        help="db_id of mini_pg's rows, which the scorer finds a PostgreSQL database by (default: %(default)s)",
    )
    _add_sql_options(parser)
    return parser


def bird(arguments: list[str] | None = None) -> None:
    _prepare_sql("bird", bird_parser().parse_args(arguments))


def spider_parser() -> argparse.ArgumentParser:
    """Convert Spider to the parquet that training and evaluation read.

    --input takes JSON lists with db_id, question and query. --tables adds the primary and foreign keys that many of
    Spider's databases do not declare. A row's id is 40,000,000 for train, 50,000,000 for dev or 60,000,000 for test,
    plus the position over all files of --input: stable across runs over the same files in the same order, and unique
    across splits and benchmarks. Databases are only read. Rejected records are listed in OUTPUT.bad.jsonl.
    docs/howto/data.md says how to fetch the files.

    --variant syn (train, dev), dk and realistic (dev) are Spider-Syn, Spider-DK and Spider-Realistic, as spider_syn and
    so on.
    """
    parser = _parser(spider_parser, _SQL_OUTPUT)
    parser.add_argument("--input", type=Path, nargs="+", required=True, metavar="FILE", help="dev.json and the like")
    parser.add_argument("--variant", choices=("syn", "dk", "realistic"), help="of Spider (default: Spider itself)")
    parser.add_argument("--tables", type=Path, metavar="FILE", help="tables.json (test: test_tables.json)")
    _add_sql_options(parser)
    return parser


def spider(arguments: list[str] | None = None) -> None:
    _prepare_sql("spider", spider_parser().parse_args(arguments))


def spider2_lite_parser() -> argparse.ArgumentParser:
    """Convert the tasks of Spider 2.0-Lite on SQLite, for evaluation.

    Their gold are stored results, of which any may be matched; the scorer reads them, so --gold lies below
    --database-path. A row's id is 220,000,000 plus the number in instance_id (local003: 3). Tasks on other engines are
    passed over. Rejected records are listed in OUTPUT.bad.jsonl. docs/howto/data.md says how to fetch the files.
    """
    parser = _parser(spider2_lite_parser, _SQL_OUTPUT)
    add = parser.add_argument
    add("--input", type=Path, nargs=1, required=True, metavar="FILE", help="spider2-lite.jsonl")
    add("--gold", type=Path, required=True, metavar="DIR", help="evaluation_suite/gold, with exec_result/*.csv")
    add("--documents", type=Path, metavar="DIR", help="resource/documents, which some questions refer to")
    _add_sql_options(parser, split="dev")
    return parser


def spider2_lite(arguments: list[str] | None = None) -> None:
    _prepare_sql("spider2_lite", spider2_lite_parser().parse_args(arguments))


def dapo_parser() -> argparse.ArgumentParser:
    """Convert DAPO-Math-17K to the math training parquet, without duplicates.

    The published file has about 100 rows for each of its 17 thousand problems. Each problem becomes one row, in order
    of first appearance; DAPO's instructions around the problem are replaced by ours, which ask for a boxed answer. A
    problem with contradicting answers is left out. A row's id is 70,000,000 plus the number of the problem's first row
    over all files: stable across runs over the same files, and unique across datasets. Rejected records are listed in
    OUTPUT.bad.jsonl. Memory grows with the number of problems, not of rows (docs/howto/data.md).
    """
    parser = _parser(dapo_parser, "data/math/dapo_train.parquet")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--input", type=Path, nargs="+", metavar="FILE", help="the published parquet")
    source.add_argument(
        "--download", action="store_true", help="fetch it from the Hugging Face Hub, at a pinned commit"
    )
    return parser


def dapo(arguments: list[str] | None = None) -> None:
    options = dapo_parser().parse_args(arguments)
    with user_errors_exit():
        from rl.data.benchmarks import HUB_FILES
        from rl.data.prepare.download import Input, download
        from rl.data.prepare.math import prepare_dapo

        files = [Input(path) for path in options.input or ()]
        if options.download:
            files += download({"math_dapo": HUB_FILES["math_dapo"]}, then="pass it with --input").values()
        sys.stdout.write(prepare_dapo(files, options.output))


def math_eval_parser() -> argparse.ArgumentParser:
    """Convert the math test sets to parquets, one OUTPUT/NAME.parquet each.

    NAME is aime24, aime25, amc23, math500, olympiadbench, minerva_math, college_math or gsm8k. --input is a folder with
    NAME/test.jsonl or NAME.jsonl (or .parquet, .json), the layout of Qwen2.5-Math's evaluation. A row's id is a
    multiple of ten million that belongs to the test set (aime24: 80,000,000, and so on in this order) plus the position
    in its file: stable across runs, and unique across test sets. Rejected records are listed in OUTPUT/NAME.bad.jsonl
    (docs/howto/data.md).
    """
    parser = _parser(math_eval_parser, "data/math", "DIR")
    add = parser.add_argument
    add("--input", type=Path, metavar="DIR", help="folder with NAME/test.jsonl for each test set")
    add("--file", action="append", default=[], metavar="NAME=FILE", help="one test set's file; repeatable")
    add("--download", action="store_true", help="fetch from the Hugging Face Hub what --input and --file do not have")
    add("--only", nargs="+", default=[], metavar="NAME", help="these test sets (default: all found)")
    return parser


def math_eval(arguments: list[str] | None = None) -> None:
    parser = math_eval_parser()
    options = parser.parse_args(arguments)
    if options.input is None and not options.file and not options.download:
        parser.error("give --input DIR, --file NAME=FILE or --download")
    with user_errors_exit():
        from rl.data.prepare.math import TEST_SETS, find_test_sets, prepare_test_set

        found = find_test_sets(options.input, options.file, options.only, fetch=options.download)
        for name, source in found.items():
            sys.stdout.write(prepare_test_set(name, source, options.output / f"{name}.parquet"))
        missing = [name for name in TEST_SETS if name not in found and not options.only]
        if missing:
            sys.stdout.write(f"Not found: {', '.join(missing)}.\n")


def _prepare_sql(benchmark: str, options: argparse.Namespace) -> None:
    with user_errors_exit():
        from rl.data.prepare.sql import prepare

        sys.stdout.write(prepare(benchmark, options))


def _parser(documented: Callable, output: str, metavar: str = "FILE") -> argparse.ArgumentParser:
    """A parser with the function's docstring as its description, and --output."""
    summary, _, details = (documented.__doc__ or "").partition("\n")
    description = f"{summary}\n{dedent(details)}"
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=output, metavar=metavar, help="default: %(default)s")
    return parser


def _add_sql_options(parser: argparse.ArgumentParser, split: str | None = None) -> None:
    """Those that all SQL benchmarks have.

    Args:
        split: the only one, of a benchmark without corrections; None: any.
    """
    parser.set_defaults(variant=None, tables=None)
    add = parser.add_argument
    files = "<db>.sqlite" if split else "<db_id>/<db_id>.sqlite"
    add("--databases", type=Path, required=True, metavar="DIR", help=f"has {files}")
    add(
        "--database-path",
        type=Path,
        metavar="DIR",
        help="the scorer's database_path, if it is a folder above --databases (default: --databases)",
    )
    if split:
        parser.set_defaults(split=split, corrections=None)
    else:
        add("--split", choices=("train", "dev", "test"), required=True, help="determines the ids")
        add(
            "--corrections",
            type=Path,
            metavar="FILE",
            help="corrected queries: JSON, JSON lines, CSV or parquet with question_id and corrected_sql",
        )
    add("--audit", type=Path, metavar="FILE", help="a table of dph audit: leave its rows out")
    add(
        "--drop-for",
        nargs="+",
        choices=OUTCOMES,
        default=FAILURES,
        metavar="OUTCOME",
        help=f"with --audit, for which outcomes (default: {' '.join(FAILURES)}; others: {' '.join(DOUBTS)})",
    )
    add("--template", choices=TEMPLATES, default=TEMPLATES[0], help="of the prompts (default: %(default)s)")
    add(
        "--value-tokens",
        type=int,
        default=0,
        metavar="N",
        help="show values that the question seems to name (BM25), in at most so many tokens (default: %(default)s)",
    )
    add("--tokenizer", type=Path, metavar="DIR", help="local model folder, to count tokens exactly (default: estimate)")
    add(
        "--max-prompt-tokens",
        type=int,
        default=MAX_PROMPT_TOKENS,
        metavar="N",
        help="longest prompt: drop example values, then the record, to meet it (default: %(default)s)",
    )
    add(
        "--example-values",
        type=int,
        default=EXAMPLE_VALUES,
        metavar="N",
        help="values shown for a column, 0 for none (default: %(default)s)",
    )
    add("--seed", type=int, help="sample the example values from a table's first 1000 rows (default: the first values)")
