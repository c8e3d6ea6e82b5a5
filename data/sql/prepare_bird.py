"""Convert BIRD to a parquet of rows (`dph prepare bird`).

    python data/sql/prepare_bird.py --split train --input train/train.json --databases train/train_databases
    python data/sql/prepare_bird.py --split dev --input dev/dev.json --databases dev/dev_databases

docs/reference/files.md describes the rows.
"""

import sys

from rl.cli import main

if __name__ == "__main__":
    sys.exit(main(["prepare", "bird", *sys.argv[1:]]))
