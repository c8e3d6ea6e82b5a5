"""Makes the training parquet of DAPO-Math-17K from its published file, without the duplicates.

    python data/math/prepare_dapo.py --input dapo-math-17k.parquet

The published file has about 100 rows for each of its 17 thousand problems. One row is written for each, in the order
in which they first stand there; DAPO's instructions around the problem give way to ours, which ask for a boxed
answer. A problem with different answers is left out. A row's id is 70,000,000 plus the number of
the problem's first row over all files: the same in every run over the same files, and different from every other
dataset's. Records that make no row are listed in OUTPUT.bad.jsonl. Memory grows with the problems, not with the
rows. docs/data.md has more.
"""

import argparse
import sys
from pathlib import Path

from rl.common.cli import user_errors_exit
from rl.data.prepare.math import prepare_dapo


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, nargs="+", required=True, metavar="FILE", help="the published parquet")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("data/math/dapo_train.parquet"),
        metavar="FILE",
        help="the parquet (default: %(default)s)",
    )
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    with user_errors_exit():
        writer, rows, repeated = prepare_dapo(options.input, options.output)
        sys.stdout.write(f"{rows} rows, of which {repeated} repeat an earlier one.\n{writer.summary()}")


if __name__ == "__main__":
    main()
