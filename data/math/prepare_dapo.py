"""Convert DAPO-Math-17K to a parquet of rows (`dph prepare dapo`).

    python data/math/prepare_dapo.py --download
    python data/math/prepare_dapo.py --input dapo-math-17k.parquet

docs/reference/files.md describes the rows.
"""

import sys

from rl.cli import main

if __name__ == "__main__":
    sys.exit(main(["prepare", "dapo", *sys.argv[1:]]))
