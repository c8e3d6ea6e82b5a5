"""Command lines of `dph prepare NAME`, which data/*/prepare_*.py are too. Parsers load nothing heavy."""

import argparse
import sys
from pathlib import Path
from textwrap import fill

from rl.data.benchmarks import DATASETS, MATH_DATASETS, MATH_TESTS, SQL_DATASETS
from rl.scorer.audit.options import DOUBTS, FAILURES, OUTCOMES

MAX_PROMPT_TOKENS = 16000  # data.max_prompt_length of the SQL experiments
EXAMPLE_VALUES = 2
TEMPLATES = ("dph", "omnisql")
_WIDTH = 110
_REJECTED = "Rejected records are listed in OUTPUT.bad.jsonl. docs/howto/data.md says how to fetch the files."


def bird_parser() -> argparse.ArgumentParser:
    parser = _sql_parser(
        "bird",
        "Convert BIRD to the parquet that sampling, training and evaluation read.",
        "--input is a JSON list with db_id, question, evidence and SQL (dev: question_id and difficulty too). A row's "
        "number is its question_id or, if the file has none, the position in it.",
    )
    parser.add_argument("--input", type=Path, nargs=1, required=True, metavar="FILE", help="train.json or dev.json")
    parser.add_argument(
        "--db-id",
        default="postgresql/{db_id}",
        metavar="TEXT",
        help="db_id of mini_pg's rows, by which the scorer finds a PostgreSQL database (default: %(default)s)",
    )
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


def spider2_lite_parser() -> argparse.ArgumentParser:
    parser = _sql_parser(
        "spider2-lite",
        "Convert the tasks of Spider 2.0-Lite on SQLite, for evaluation.",
        "Their gold answers are stored results, any of which a response may match. The scorer reads them, so --gold is "
        "below --database-path. A row's number is the one in instance_id (local003: 3). Tasks on other engines are "
        "left out.",
    )
    add = parser.add_argument
    add("--input", type=Path, nargs=1, required=True, metavar="FILE", help="spider2-lite.jsonl")
    add("--gold", type=Path, required=True, metavar="DIR", help="evaluation_suite/gold, with exec_result/*.csv")
    add("--documents", type=Path, metavar="DIR", help="resource/documents, which some questions refer to")
    return parser


def bird(arguments: list[str]) -> None:
    _prepare_sql("bird", bird_parser().parse_args(arguments))


def spider(arguments: list[str]) -> None:
    _prepare_sql("spider", spider_parser().parse_args(arguments))


def spider2_lite(arguments: list[str]) -> None:
    _prepare_sql("spider2-lite", spider2_lite_parser().parse_args(arguments))


def dapo_parser() -> argparse.ArgumentParser:
    parser = _parser(
        "Convert DAPO-Math-17K to the math training parquet, without duplicates.",
        "The published file has about 100 rows for each of its 17 thousand problems. Each problem becomes one row, in "
        "order of first appearance; DAPO's instructions around the problem are replaced by ours, which ask for a boxed "
        "answer. A problem with contradicting answers is left out. A row's number counts the published "
        "rows over all files, up to the problem's first one.",
        "math_dapo",
    )
    parser.add_argument(
        "--output", type=Path, default="data/math/dapo_train.parquet", metavar="FILE", help="default: %(default)s"
    )
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
        files += download({"math_dapo": MATH_DATASETS["math_dapo"].hub}, then="pass it with --input").values()
    sys.stdout.write(prepare_dapo(files, options.output))


def math_eval_parser() -> argparse.ArgumentParser:
    parser = _parser(
        "Convert the math test sets to parquets, one OUTPUT/NAME.parquet each.",
        "--input is a folder with NAME/test.jsonl or NAME.jsonl (or .parquet, .json), the layout of Qwen2.5-Math's "
        "evaluation. A row's number is the position in its file.",
        *MATH_TESTS,
    )
    add = parser.add_argument
    add("--output", type=Path, default="data/math", metavar="DIR", help="default: %(default)s")
    add("--input", type=Path, metavar="DIR", help="folder with NAME/test.jsonl for each test set")
    add("--file", action="append", default=[], metavar="NAME=FILE", help="one test set's file; repeatable")
    add("--download", action="store_true", help="fetch from the Hugging Face Hub what --input and --file do not have")
    add("--only", nargs="+", default=[], metavar="NAME", help="these test sets (default: all found)")
    return parser


def math_eval(arguments: list[str]) -> None:
    from rl.data.prepare.math import find_test_sets, prepare_test_set

    parser = math_eval_parser()
    options = parser.parse_args(arguments)
    if options.input is None and not options.file and not options.download:
        parser.error("give --input DIR, --file NAME=FILE or --download")
    found = find_test_sets(options.input, options.file, options.only, fetch=options.download)
    for name, source in found.items():
        sys.stdout.write(prepare_test_set(name, source, options.output / f"{name}.parquet"))
    missing = [name for name in MATH_TESTS if name not in found and not options.only]
    if missing:
        sys.stdout.write(f"Not found: {', '.join(missing)}.\n")


def _prepare_sql(program: str, options: argparse.Namespace) -> None:
    from rl.data.prepare.sql import prepare

    [data] = [data for data in SQL_DATASETS.values() if (data.program, data.variant) == (program, options.variant)]
    sys.stdout.write(prepare(data, options))


def _parser(summary: str, details: str, *names: str) -> argparse.ArgumentParser:
    """A parser whose description says which ids the rows of these data sets have."""
    first_ids = ", ".join(
        f"{10 * block},000,000 ({name} {split})" for name in names for split, block in DATASETS[name].id_blocks.items()
    )
    ids = (
        f"A row's id is its number plus {first_ids}. It is the same in every run over the same files, and unique over "
        "all data sets."
    )
    paragraphs = (summary, details, ids, _REJECTED)
    description = "\n\n".join(fill(text, _WIDTH, break_on_hyphens=False) for text in paragraphs)
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def _sql_parser(program: str, summary: str, details: str) -> argparse.ArgumentParser:
    """The parser of an SQL program, without its --input."""
    own = [data for data in SQL_DATASETS.values() if data.program == program]
    parser = _parser(summary, details, *(data.name for data in own))
    add = parser.add_argument
    add(
        "--output",
        type=Path,
        default="data/sql/{name}_{split}.parquet",
        metavar="FILE",
        help="default: %(default)s",
    )
    parser.set_defaults(variant="", tables=None, corrections=None)
    splits = list(dict.fromkeys(split for data in own for split in data.id_blocks))
    if len(splits) == 1:
        parser.set_defaults(split=splits[0])
    else:
        variants = {data.variant: f"{data.label} ({', '.join(data.id_blocks)})" for data in own if data.variant}
        listed = ", ".join(f"{name}: {label}" for name, label in variants.items())
        add("--variant", choices=variants, default="", help=f"{listed} (default: the benchmark itself)")
        add("--split", choices=splits, required=True, help="determines the ids")
        add(
            "--corrections",
            type=Path,
            metavar="FILE",
            help="corrected queries: JSON, JSON lines, CSV or parquet with question_id and corrected_sql",
        )
    files = own[0].database.replace("{db_id}", "<db_id>")
    add("--databases", type=Path, required=True, metavar="DIR", help=f"has {files}")
    add(
        "--database-path",
        type=Path,
        metavar="DIR",
        help="the scorer's database_path, if it is a folder above --databases (default: --databases)",
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
        help="show values that the question seems to name (BM25), in at most N tokens (default: %(default)s)",
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
    add("--seed", type=int, help="draw the example values from a table's first 1000 rows (default: the first values)")
    return parser
