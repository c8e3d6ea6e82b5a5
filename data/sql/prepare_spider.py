"""Convert Spider to a parquet of rows (`dph prepare spider`).

    python data/sql/prepare_spider.py --split dev --input spider/dev.json --databases spider/database \\
        --tables spider/tables.json
    python data/sql/prepare_spider.py --split train --input spider/train_spider.json spider/train_others.json \\
        --databases spider/database --tables spider/tables.json

docs/reference/files.md describes the rows.
"""

import sys

from rl.cli import main

if __name__ == "__main__":
    sys.exit(main(["prepare", "spider", *sys.argv[1:]]))
