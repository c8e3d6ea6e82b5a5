"""Makes the parquet of BIRD that sampling, training and evaluation read, from its published files.

    python data/sql/prepare_bird.py --split train --input train/train.json --databases train/train_databases
    python data/sql/prepare_bird.py --split dev --input dev/dev.json --databases dev/dev_databases

--input is a JSON list with db_id, question, evidence and SQL (dev: question_id and difficulty too). A row's id is
10,000,000 for train, 20,000,000 for dev or 30,000,000 for test, plus the question_id, or where the file has none the
position in it: the same in every run, and different in every split and benchmark. Nothing is fetched; databases are
only read. Records that make no row are listed in OUTPUT.bad.jsonl. docs/data.md has more.
"""

import argparse
from pathlib import Path

from rl.common.cli import user_errors_exit
from rl.data.prepare.sql import BIRD, add_options, prepare


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True, metavar="FILE", help="train.json or dev.json")
    add_options(parser, BIRD, output="data/sql/bird_{split}.parquet")
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    with user_errors_exit():
        prepare(BIRD, options, [options.input], declared={})


if __name__ == "__main__":
    main()
