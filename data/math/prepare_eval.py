"""Convert the math test sets to parquets of rows (`dph prepare math-eval`).

    python data/math/prepare_eval.py --download
    python data/math/prepare_eval.py --input evaluation/data

docs/reference/files.md describes the rows.
"""

import sys

from rl.cli import main

if __name__ == "__main__":
    sys.exit(main(["prepare", "math-eval", *sys.argv[1:]]))
