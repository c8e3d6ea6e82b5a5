"""Split a training parquet into near-perfect prompts (train_correct.parquet) and the rest (train_wrong.parquet).

    python ./data/sql/process_data/exact_correct_id.py

reads the samples of scripts/llama/offline_sampling.sh; verl/dph/split.py does the work.
"""

import argparse
import sys
from pathlib import Path

from verl.dph.cli import user_errors_exit
from verl.dph.split import Split, split, write_split

# Sizes of (D_exp, D_pef) in the paper, METHOD.md "Data".
PAPER_SIZES = {"Llama-SQL": (6710, 2248), "OmniSQL-32B": (5169, 3789)}
BAR_WIDTH = 40


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--samples",
        type=Path,
        nargs="+",
        default=[Path("data/sql/llama3.1-8b/generate_data/0.jsonl")],
        help="samples of the initial policy (default: %(default)s)",
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("data/sql/bird_train.parquet"),
        help="the parquet that was sampled (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("data/sql/llama3.1-8b/"),
        help="folder for train_correct.parquet and train_wrong.parquet (default: %(default)s)",
    )
    parser.add_argument(
        "--threshold",
        type=int,
        default=6,
        help="correct samples of a near-perfect prompt (default: %(default)s; Qwen 7)",
    )
    parser.add_argument("--n", type=int, default=8, help="samples a prompt (default: %(default)s)")
    parser.add_argument(
        "--keep-zero", dest="keep_zero", action="store_true", default=True, help="keep prompts with 0 correct (default)"
    )
    parser.add_argument("--drop-zero", dest="keep_zero", action="store_false", help="leave them out")
    return parser.parse_args()


def summary(parts: Split, threshold: int, n: int) -> str:
    """Histogram of the pass counts, and the two sizes beside the paper's."""
    most = max(parts.pass_counts.values(), default=0) or 1
    lines = [f"correct of {n}   prompts"]
    for count in range(n + 1):
        prompts = parts.pass_counts[count]
        part = "D_pef" if count >= threshold else "D_exp" if count or not parts.dropped_zero else "dropped"
        lines.append(f"{count:>12} {prompts:>9}  {part:<7} {'#' * round(BAR_WIDTH * prompts / most)}".rstrip())
    if parts.overlong:
        lines.append(f"{parts.overlong} prompts are too long to be sampled and are left out.")
    lines.append(f"{'':<12} {'D_exp':>7} {'D_pef':>7} {'D_pef share':>12}")
    sizes = {"this split": (parts.wrong.num_rows, parts.correct.num_rows)} | {
        f"{name}*": paper for name, paper in PAPER_SIZES.items()
    }
    for name, (explored, near_perfect) in sizes.items():
        share = near_perfect / max(explored + near_perfect, 1)
        lines.append(f"{name:<12} {explored:>7} {near_perfect:>7} {share:>12.1%}")
    lines.append("* in the paper")
    return "\n".join(lines) + "\n"


def main() -> None:
    arguments = parse_arguments()
    with user_errors_exit():
        parts = split(
            arguments.data,
            arguments.samples,
            threshold=arguments.threshold,
            n=arguments.n,
            keep_zero=arguments.keep_zero,
        )
        paths = write_split(parts, arguments.out)
        sys.stdout.write(summary(parts, arguments.threshold, arguments.n))
        sys.stdout.write(f"Wrote {paths[0]} and {paths[1]}.\n")


if __name__ == "__main__":
    main()
