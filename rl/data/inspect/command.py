"""Show the contents of data files and their problems.

FILE is a parquet of prompts, a file of samples (JSON lines) or a D_pef store (.pt), recognised by its content. The
program prints counts, lengths, pass counts and a few rows, then the problems: unreadable rows, duplicate or missing
ids, and prompts that two of the parquets share. A store takes some seconds more, because torch and verl read it. Exit
code 0: no problem; 1: problems; 2: not one of these files (docs/reference/files.md).
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError

if TYPE_CHECKING:
    from rl.data.inspect.report import Options

PROBLEMS_EXIT_CODE = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Returns:
        The exit code, 0 or PROBLEMS_EXIT_CODE.

    Raises:
        SystemExit: with 2, if a file is not a file of the project or an option is wrong.
    """
    options = parser().parse_args(arguments)
    with user_errors_exit():
        from rl.data.inspect.files import inspect_prompts, inspect_samples, kind_of
        from rl.data.inspect.pef_store import inspect_store
        from rl.data.inspect.report import PROMPTS, SAMPLES, STORE, leaks, page, problems_section

        inspectors = {PROMPTS: inspect_prompts, SAMPLES: inspect_samples, STORE: inspect_store}
        kinds = [kind_of(file) for file in options.files]  # before the first long read
        given = _options(options)
        reports = [inspectors[kind](file, given) for kind, file in zip(kinds, options.files, strict=True)]
    shared = leaks(reports)
    problems = [f"{report.path}: {problem}" for report in reports for problem in report.problems]
    problems += [leak["problem"] for leak in shared]
    files = [report.as_json() for report in reports]
    if options.json:
        content = {"files": files, "leaks": shared, "problems": problems}
        sys.stdout.write(json.dumps(content, indent=2, default=str) + "\n")
    else:
        sys.stdout.write("\n".join([*map(page, files), problems_section(problems)]))
    return PROBLEMS_EXIT_CODE if problems else 0


def _options(arguments: argparse.Namespace) -> "Options":
    from rl.common.fingerprint import tokenizer_hash
    from rl.data.inspect.report import Options
    from rl.data.tokenizer import load_tokenizer

    folder = arguments.tokenizer
    if folder is None:
        return Options(arguments.examples, arguments.seed)
    tokenizer = load_tokenizer(folder)
    if tokenizer.chat_template is None:
        raise UserError(f"The tokenizer of {folder} has no chat template, which prompts need: name another tokenizer.")
    return Options(arguments.examples, arguments.seed, tokenizer, tokenizer_hash(folder))


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dph inspect", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+", help="parquet, JSON lines or .pt")
    parser.add_argument("--tokenizer", metavar="FOLDER", type=Path, help="count prompts in tokens and decode a store")
    parser.add_argument("--examples", type=int, default=2, help="rows to show per file (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the examples (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    return parser
