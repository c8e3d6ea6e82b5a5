"""Convert the math test sets to parquets of rows (`dph prepare math-eval`).

    python data/math/prepare_eval.py --download
    python data/math/prepare_eval.py --input evaluation/data
    python data/math/prepare_eval.py --file aime25=aime2025.jsonl --file math500=MATH-500/test.jsonl

docs/reference/files.md describes the rows.
"""

import sys

from rl.cli import main

if __name__ == "__main__":
    sys.exit(main(["prepare", "math-eval", *sys.argv[1:]]))
