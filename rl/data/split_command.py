"""The command line of the splitter; data/sql and data/math have a thin exact_correct_id.py each, with its defaults."""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.data.split import Split, split, write_split

# Correct samples of 8 that make a prompt near-perfect, by model family (docs/method.md). OmniSQL is a Qwen.
THRESHOLDS = {"llama": 6, "qwen": 7}
PAPER_N = 8
BAR_WIDTH = 40


@dataclass(frozen=True)
class Task:
    """What one task's splitter takes when nothing is said."""

    data: str  # the parquet that was sampled
    folder: str  # of the samples (generate_data/0.jsonl) and of the two parts
    keep_zero: bool  # whether prompts without a correct sample stay in D_exp
    paper_sizes: dict[str, tuple[int, int]]  # (D_exp, D_pef) in the paper, docs/method.md


def run(task: Task, description: str) -> None:
    """Split as sys.argv says, write both parts and print their sizes."""
    arguments = _parse_arguments(task, description)
    with user_errors_exit():
        threshold = _threshold(arguments)
        parts = split(
            arguments.data, arguments.samples, threshold=threshold, n=arguments.n, keep_zero=arguments.keep_zero
        )
        paths = write_split(parts, arguments.out)
        sys.stdout.write(summary(parts, threshold, arguments.n, task.paper_sizes))
        sys.stdout.write(f"Wrote {paths[0]} and {paths[1]}.\n")


def summary(parts: Split, threshold: int, n: int, paper_sizes: dict[str, tuple[int, int]]) -> str:
    """Histogram of the pass counts, and the two sizes beside the paper's."""
    most = max(parts.pass_counts.values(), default=0) or 1
    lines = [f"correct of {n}   prompts"]
    for count in range(n + 1):
        prompts = parts.pass_counts[count]
        part = "D_pef" if count >= threshold else "D_exp" if count or not parts.dropped_zero else "dropped"
        lines.append(f"{count:>12} {prompts:>9}  {part:<7} {'#' * round(BAR_WIDTH * prompts / most)}".rstrip())
    if parts.overlong:
        lines.append(f"{parts.overlong} prompts are too long to be sampled and are left out.")
    sizes = {"this split": (parts.wrong.num_rows, parts.correct.num_rows)} | {
        f"{name}*": paper for name, paper in paper_sizes.items()
    }
    width = max(map(len, sizes))
    lines.append(f"{'':<{width}} {'D_exp':>7} {'D_pef':>7} {'D_pef share':>12}")
    for name, (explored, near_perfect) in sizes.items():
        share = near_perfect / max(explored + near_perfect, 1)
        lines.append(f"{name:<{width}} {explored:>7} {near_perfect:>7} {share:>12.1%}")
    lines.append("* in the paper")
    return "\n".join(lines) + "\n"


def _threshold(arguments: argparse.Namespace) -> int:
    if arguments.threshold is not None:
        return arguments.threshold
    if arguments.n != PAPER_N:
        raise UserError(
            f"The family's threshold is of {PAPER_N} samples per prompt, not of {arguments.n}: pass --threshold."
        )
    return THRESHOLDS[arguments.family]


def _parse_arguments(task: Task, description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--samples",
        type=Path,
        nargs="+",
        default=[Path(task.folder) / "generate_data" / "0.jsonl"],
        help=f"samples of the initial policy (default: {task.folder}/generate_data/0.jsonl)",
    )
    parser.add_argument(
        "--data", type=Path, default=Path(task.data), help="the parquet that was sampled (default: %(default)s)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(task.folder),
        help="folder for train_correct.parquet and train_wrong.parquet (default: %(default)s)",
    )
    families = ", ".join(f"{family} {threshold}" for family, threshold in THRESHOLDS.items())
    parser.add_argument(
        "--family",
        choices=sorted(THRESHOLDS),
        default="llama",
        help=f"model family, for the paper's threshold: {families} of {PAPER_N} (default: %(default)s; OmniSQL: qwen)",
    )
    parser.add_argument(
        "--threshold", type=_positive, help="correct samples of a near-perfect prompt, instead of the family's"
    )
    parser.add_argument("--n", type=_positive, default=PAPER_N, help="samples per prompt (default: %(default)s)")
    zero = parser.add_mutually_exclusive_group()
    keeps, drops = (" (default)", "") if task.keep_zero else ("", " (default)")
    zero.add_argument(
        "--keep-zero",
        action="store_true",
        default=task.keep_zero,
        help=f"keep prompts without a correct sample in D_exp{keeps}",
    )
    zero.add_argument("--drop-zero", dest="keep_zero", action="store_false", help=f"leave them out{drops}")
    return parser.parse_args()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not positive")
    return number
