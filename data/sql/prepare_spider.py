"""Makes the parquet of Spider that training and evaluation read, from its published files.

    python data/sql/prepare_spider.py --split dev --input spider/dev.json --databases spider/database \\
        --tables spider/tables.json
    python data/sql/prepare_spider.py --split train --input spider/train_spider.json spider/train_others.json \\
        --databases spider/database --tables spider/tables.json

--input are JSON lists with db_id, question and query. --tables gives the primary and foreign keys that many of
Spider's databases do not declare. A row's id is 40,000,000 for train, 50,000,000 for dev or 60,000,000 for test,
plus the position over all files of --input: the same in every run over the same files in the same order, and
different in every split and benchmark. Nothing is fetched; databases are only read. Records that make no row are
listed in OUTPUT.bad.jsonl. docs/data.md has more.
"""

import argparse
from pathlib import Path

from rl.common.cli import user_errors_exit
from rl.data.prepare.sql import SPIDER, add_options, prepare, read_tables


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, nargs="+", required=True, metavar="FILE", help="dev.json and the like")
    parser.add_argument("--tables", type=Path, metavar="FILE", help="tables.json (test: test_tables.json)")
    add_options(parser, SPIDER, output="data/sql/spider_{split}.parquet")
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    with user_errors_exit():
        declared = read_tables(options.tables) if options.tables is not None else {}
        prepare(SPIDER, options, options.input, declared)


if __name__ == "__main__":
    main()
