"""Command lines of `dph prepare NAME` and data/*/prepare_*.py. Parsers import nothing slow."""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import fill

from rl.common.cli import output_file, output_folder
from rl.common.errors import UserError
from rl.data.benchmarks import MATH_DATASETS, MATH_TESTS, SQL_DATASETS

MAX_PROMPT_TOKENS = 16000  # data.max_prompt_length of the SQL experiments
TEMPLATES = ("dph", "omnisql")
_WIDTH = 110
_REJECTED = (
    "A row's id is its number plus 10,000,000 times its data set's block. Rejected records are listed in "
    "OUTPUT.bad.jsonl. docs/howto/data.md has the blocks, and says how to fetch the files."
)


def bird_parser() -> argparse.ArgumentParser:
    parser = _sql_parser(
        "bird",
        "Convert BIRD to the parquet that sampling, training and evaluation read.",
        "--input is a JSON list with db_id, question, evidence and SQL (dev: question_id and difficulty too). A row's "
        "number is its question_id or, if the file has none, its position in the file.",
    )
    parser.add_argument("--input", type=Path, nargs=1, required=True, metavar="FILE", help="train.json or dev.json")
    db_id = "db_id of mini_pg's rows, which names the scorer's PostgreSQL database (default: postgresql/{db_id})"
    parser.add_argument("--db-id", metavar="TEXT", help=db_id)
    return parser


def spider_parser() -> argparse.ArgumentParser:
    parser = _sql_parser(
        "spider",
        "Convert Spider to the parquet that training and evaluation read.",
        "--input takes JSON lists with db_id, question and query. --tables adds the primary and foreign keys that many "
        "of Spider's databases do not declare. A row's number is the position over all files of --input.",
    )
    parser.add_argument("--input", type=Path, nargs="+", required=True, metavar="FILE", help="dev.json and the like")
    parser.add_argument("--tables", type=Path, metavar="FILE", help="tables.json (test: test_tables.json)")
    return parser


def dapo_parser() -> argparse.ArgumentParser:
    parser = _parser(
        "Convert DAPO-Math-17K to the math training parquet, without duplicates.",
        "The published file has about 100 rows for each of its 17 thousand problems. Each problem becomes one row, in "
        "order of first appearance; DAPO's instructions around the problem are replaced by ours, which ask for a boxed "
        "answer. A problem with contradicting answers is left out. A row's number is the position of the problem's "
        "first published row over all files.",
    )
    output = Path("data/math/dapo_train.parquet")
    parser.add_argument("--output", type=output_file, default=output, metavar="FILE", help="default: %(default)s")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--input", type=Path, nargs="+", metavar="FILE", help="the published parquet")
    source.add_argument(
        "--download", action="store_true", help="fetch it from the Hugging Face Hub, at a pinned commit"
    )
    return parser


def dapo(arguments: list[str]) -> None:
    from rl.data.prepare.math import prepare_dapo
    from rl.data.prepare.published import Input, download

    options = dapo_parser().parse_args(arguments)
    files = [Input(path) for path in options.input or ()]
    if options.download:
        files += download({"math_dapo": MATH_DATASETS["math_dapo"].hub}).values()
    sys.stdout.write(prepare_dapo(files, options.output))


def math_eval_parser() -> argparse.ArgumentParser:
    parser = _parser(
        "Convert the math test sets to parquets, one OUTPUT/NAME.parquet each.",
        "--input is a folder with NAME/test.jsonl or NAME.jsonl (or .parquet, .json), the layout of Qwen2.5-Math's "
        "evaluation. A row's number is the position in its file.",
    )
    add = parser.add_argument
    add("--output", type=output_folder, default=Path("data/math"), metavar="DIR", help="default: %(default)s")
    add("--input", type=Path, metavar="DIR", help="folder with NAME/test.jsonl for each test set")
    add("--download", action="store_true", help="fetch what --input lacks from the Hugging Face Hub")
    add("--only", nargs="+", default=[], choices=MATH_TESTS, metavar="NAME", help="these test sets (default: all)")
    return parser


def math_eval(arguments: list[str]) -> None:
    from rl.data.prepare.math import find_test_sets, prepare_test_set

    options = math_eval_parser().parse_args(arguments)
    if options.input is None and not options.download:
        raise UserError("The test sets have no source: give --input DIR or --download.")
    found = find_test_sets(options.input, options.only, fetch=options.download)
    for name, source in found.items():
        sys.stdout.write(prepare_test_set(name, source, options.output / f"{name}.parquet"))
    missing = [name for name in MATH_TESTS if name not in found and not options.only]
    if missing:
        sys.stdout.write(f"Not found: {', '.join(missing)}.\n")


def _prepare_sql(parser: Callable[[], argparse.ArgumentParser], arguments: list[str]) -> None:
    from rl.data.prepare.sql import prepare

    options = parser().parse_args(arguments)
    known = {(data.program, data.variant): data for data in SQL_DATASETS.values()}
    sys.stdout.write(prepare(known[options.program, options.variant], options))


bird, spider = partial(_prepare_sql, bird_parser), partial(_prepare_sql, spider_parser)


def _parser(summary: str, details: str) -> argparse.ArgumentParser:
    paragraphs = (summary, details, _REJECTED)
    description = "\n\n".join(fill(text, _WIDTH, break_on_hyphens=False) for text in paragraphs)
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def _sql_parser(program: str, summary: str, details: str) -> argparse.ArgumentParser:
    """The parser of a SQL program, without its --input."""
    own = [data for data in SQL_DATASETS.values() if data.program == program]
    parser = _parser(summary, details)
    add = parser.add_argument
    output = Path("data/sql/{name}_{split}.parquet")
    add("--output", type=output_file, default=output, metavar="FILE", help="default: %(default)s")
    parser.set_defaults(program=program, variant="", tables=None, db_id=None)
    if variants := {data.variant: f"{data.label} ({', '.join(data.id_blocks)})" for data in own if data.variant}:
        listed = ", ".join(f"{name}: {label}" for name, label in variants.items())
        add("--variant", choices=variants, default="", help=f"{listed} (default: the benchmark itself)")
    add("--split", choices=own[0].id_blocks, required=True, help="determines the ids")
    formats = "corrected queries: JSON, JSON lines or parquet with question_id and corrected_sql"
    add("--corrections", type=Path, metavar="FILE", help=formats)
    add("--databases", type=Path, required=True, metavar="DIR", help="has <db_id>/<db_id>.sqlite")
    above = "the scorer's database_path, if it is a folder above --databases (default: --databases)"
    add("--database-path", type=Path, metavar="DIR", help=above)
    add("--template", choices=TEMPLATES, default=TEMPLATES[0], help="the prompts' template (default: %(default)s)")
    add(
        "--tokenizer",
        type=Path,
        metavar="MODEL",
        help="model folder or name on the Hub, to count tokens exactly (default: estimate)",
    )
    longest = "limit of a prompt, met by dropping example values, then the record (default: %(default)s)"
    add("--max-prompt-tokens", type=int, default=MAX_PROMPT_TOKENS, metavar="N", help=longest)
    return parser
