"""Makes the parquets of the math test sets from their published files.

    python data/math/prepare_eval.py --input evaluation/data
    python data/math/prepare_eval.py --file aime25=aime2025.jsonl --file math500=MATH-500/test.jsonl

--input is a folder with NAME/test.jsonl or NAME.jsonl (or .parquet, .json), as the evaluation of Qwen2.5-Math has
it; NAME is aime24, aime25, amc23, math500, olympiadbench, minerva_math, college_math or gsm8k. Each becomes
OUTPUT/NAME.parquet. A row's id is a number of ten millions for the test set (aime24: 80,000,000, and so on in this
order) plus the position in its file: the same in every run, and different in every test set. Records that make no
row are listed in OUTPUT/NAME.bad.jsonl. docs/data.md has more.
"""

import argparse
import sys
from pathlib import Path

from rl.common.cli import user_errors_exit
from rl.data.prepare.math import TEST_SETS, find_test_sets, prepare_test_set


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, metavar="DIR", help="folder with NAME/test.jsonl for each test set")
    parser.add_argument(
        "--file", action="append", default=[], metavar="NAME=FILE", help="a test set's file; can be given repeatedly"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], choices=TEST_SETS, metavar="NAME", help="these test sets (default: all found)"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("data/math"), metavar="DIR", help="folder (default: %(default)s)"
    )
    options = parser.parse_args()
    if options.input is None and not options.file:
        parser.error("give --input DIR or --file NAME=FILE")
    return options


def main() -> None:
    options = parse_arguments()
    with user_errors_exit():
        found = find_test_sets(options.input, options.file, options.only)
        for name, file in found.items():
            writer = prepare_test_set(name, file, options.output / f"{name}.parquet")
            sys.stdout.write(f"{name}: {writer.rows + writer.rejected} problems in {file}.\n{writer.summary()}")
        missing = [name for name in TEST_SETS if name not in found and not options.only]
        if missing:
            sys.stdout.write(f"Not found: {', '.join(missing)}.\n")


if __name__ == "__main__":
    main()
