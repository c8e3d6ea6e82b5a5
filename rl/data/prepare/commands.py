"""Command lines of the benchmarks: `dph prepare NAME` and data/*/prepare_*.py. Parsers load nothing heavy."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

from rl.common.cli import user_errors_exit

MAX_PROMPT_TOKENS = 16000  # data.max_prompt_length of scripts/lib
EXAMPLE_VALUES = 2


def bird_parser() -> argparse.ArgumentParser:
    """Convert BIRD to the parquet that sampling, training and evaluation read.

    --input is a JSON list with db_id, question, evidence and SQL (dev: question_id and difficulty too). A row's id is
    10,000,000 for train, 20,000,000 for dev or 30,000,000 for test, plus the question_id or, if the file has none, the
    position in it: stable across runs, and unique across splits and benchmarks. Databases are only read. Rejected
    records are listed in OUTPUT.bad.jsonl. docs/data.md says how to fetch the files.
    """
    parser = _parser(bird_parser)
    parser.add_argument("--input", type=Path, required=True, metavar="FILE", help="train.json or dev.json")
    _add_sql_options(parser, output="data/sql/bird_{split}.parquet")
    return parser


def bird(arguments: list[str] | None = None) -> None:
    options = bird_parser().parse_args(arguments)
    with user_errors_exit():
        from rl.data.prepare.sql import BIRD, prepare

        prepare(BIRD, options, [options.input], declared={})


def spider_parser() -> argparse.ArgumentParser:
    """Convert Spider to the parquet that training and evaluation read.

    --input takes JSON lists with db_id, question and query. --tables adds the primary and foreign keys that many of
    Spider's databases do not declare. A row's id is 40,000,000 for train, 50,000,000 for dev or 60,000,000 for test,
    plus the position over all files of --input: stable across runs over the same files in the same order, and unique
    across splits and benchmarks. Databases are only read. Rejected records are listed in OUTPUT.bad.jsonl. docs/data.md
    says how to fetch the files.
    """
    parser = _parser(spider_parser)
    parser.add_argument("--input", type=Path, nargs="+", required=True, metavar="FILE", help="dev.json and the like")
    parser.add_argument("--tables", type=Path, metavar="FILE", help="tables.json (test: test_tables.json)")
    _add_sql_options(parser, output="data/sql/spider_{split}.parquet")
    return parser


def spider(arguments: list[str] | None = None) -> None:
    options = spider_parser().parse_args(arguments)
    with user_errors_exit():
        from rl.data.prepare.sql import SPIDER, prepare, read_tables

        declared = read_tables(options.tables) if options.tables is not None else {}
        prepare(SPIDER, options, options.input, declared)


def dapo_parser() -> argparse.ArgumentParser:
    """Convert DAPO-Math-17K to the math training parquet, without duplicates.

    The published file has about 100 rows for each of its 17 thousand problems. Each problem becomes one row, in order
    of first appearance; DAPO's instructions around the problem are replaced by ours, which ask for a boxed answer. A
    problem with contradicting answers is left out. A row's id is 70,000,000 plus the number of the problem's first row
    over all files: stable across runs over the same files, and unique across datasets. Rejected records are listed in
    OUTPUT.bad.jsonl. Memory grows with the number of problems, not of rows (docs/data.md).
    """
    parser = _parser(dapo_parser)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--input", type=Path, nargs="+", metavar="FILE", help="the published parquet")
    source.add_argument(
        "--download", action="store_true", help="fetch it from the Hugging Face Hub, at a pinned commit"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("data/math/dapo_train.parquet"),
        metavar="FILE",
        help="the parquet (default: %(default)s)",
    )
    return parser


def dapo(arguments: list[str] | None = None) -> None:
    options = dapo_parser().parse_args(arguments)
    with user_errors_exit():
        from rl.data.benchmarks import HUB_FILES
        from rl.data.prepare.download import Input, download
        from rl.data.prepare.math import prepare_dapo

        if options.download:
            hub = {"math_dapo": HUB_FILES["math_dapo"]}
            files = [*download(hub, then="pass it with --input").values()]
        else:
            files = [Input(path) for path in options.input]
        writer, rows, repeated = prepare_dapo(files, options.output)
        sys.stdout.write(f"{rows} rows, of which {repeated} repeat an earlier one.\n{writer.summary()}")


def math_eval_parser() -> argparse.ArgumentParser:
    """Convert the math test sets to parquets, one OUTPUT/NAME.parquet each.

    NAME is aime24, aime25, amc23, math500, olympiadbench, minerva_math, college_math or gsm8k. --input is a folder with
    NAME/test.jsonl or NAME.jsonl (or .parquet, .json), the layout of Qwen2.5-Math's evaluation. A row's id is a
    multiple of ten million that belongs to the test set (aime24: 80,000,000, and so on in this order) plus the position
    in its file: stable across runs, and unique across test sets. Rejected records are listed in OUTPUT/NAME.bad.jsonl
    (docs/data.md).
    """
    parser = _parser(math_eval_parser)
    parser.add_argument("--input", type=Path, metavar="DIR", help="folder with NAME/test.jsonl for each test set")
    parser.add_argument(
        "--file", action="append", default=[], metavar="NAME=FILE", help="one test set's file; repeatable"
    )
    parser.add_argument(
        "--download", action="store_true", help="fetch from the Hugging Face Hub what --input and --file do not have"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these test sets (default: all found)")
    parser.add_argument(
        "--output", type=Path, default=Path("data/math"), metavar="DIR", help="folder (default: %(default)s)"
    )
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
            writer = prepare_test_set(name, source, options.output / f"{name}.parquet")
            sys.stdout.write(f"{name}: {writer.rows + writer.rejected} problems in {source.path}.\n{writer.summary()}")
        missing = [name for name in TEST_SETS if name not in found and not options.only]
        if missing:
            sys.stdout.write(f"Not found: {', '.join(missing)}.\n")


def _parser(documented: Callable) -> argparse.ArgumentParser:
    summary, _, details = (documented.__doc__ or "").partition("\n")
    return argparse.ArgumentParser(
        description=f"{summary}\n{dedent(details)}", formatter_class=argparse.RawDescriptionHelpFormatter
    )


def _add_sql_options(parser: argparse.ArgumentParser, output: str) -> None:
    """Add the options of both SQL benchmarks; `output` is the default, with {split}."""
    parser.add_argument("--databases", type=Path, required=True, metavar="DIR", help="has <db_id>/<db_id>.sqlite")
    parser.add_argument(
        "--database-path",
        type=Path,
        metavar="DIR",
        help="the scorer's database_path, if it is a folder above --databases (default: --databases)",
    )
    parser.add_argument("--split", choices=("train", "dev", "test"), required=True, help="determines the ids")
    parser.add_argument("--output", type=Path, metavar="FILE", help=f"the parquet (default: {output})")
    parser.add_argument(
        "--tokenizer", type=Path, metavar="DIR", help="local model folder, to count tokens exactly (default: estimate)"
    )
    parser.add_argument(
        "--max-prompt-tokens",
        type=int,
        default=MAX_PROMPT_TOKENS,
        metavar="N",
        help="longest prompt: drop example values, then the record, to meet it (default: %(default)s)",
    )
    parser.add_argument(
        "--example-values",
        type=int,
        default=EXAMPLE_VALUES,
        metavar="N",
        help="values shown for a column, 0 for none (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, help="sample the example values from a table's first 1000 rows (default: the first values)"
    )
    parser.set_defaults(default_output=output)
