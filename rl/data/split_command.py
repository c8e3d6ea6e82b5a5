"""Command line of the splitter: `dph split` and data/*/process_data/exact_correct_id.py."""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError

if TYPE_CHECKING:
    from rl.data.split import Split

# Correct samples of 8 that make a prompt near-perfect, by model family (docs/method.md). OmniSQL is a Qwen.
THRESHOLDS = {"llama": 6, "qwen": 7}
PAPER_N = 8
BAR_WIDTH = 40


@dataclass(frozen=True)
class Experiment:
    """One of the paper's experiments (scripts/lib): the splitter's defaults."""

    label: str  # in the paper
    data: str  # the parquet that was sampled
    folder: str  # of the samples (generate_data/0.jsonl) and of the two parts
    family: str
    keep_zero: bool  # whether prompts without a correct sample stay in D_exp
    paper_size: tuple[int, int]  # (D_exp, D_pef) in the paper


_SQL, _MATH = "data/sql/bird_train.parquet", "data/math/dapo_train.parquet"
EXPERIMENTS = {
    "llama_sql": Experiment("Llama-SQL", _SQL, "data/sql/llama3.1-8b", "llama", True, (6710, 2248)),
    "omnisql_sql": Experiment("OmniSQL-32B", _SQL, "data/sql/omnisql-32b", "qwen", True, (5169, 3789)),
    "llama_math": Experiment("Llama-Math", _MATH, "data/math/llama3.1-8b", "llama", False, (4599, 1248)),
    "qwen_math": Experiment("Qwen2.5-Math", _MATH, "data/math/qwen2.5-math-7b", "qwen", False, (7009, 3199)),
}


def main(arguments: list[str] | None = None, *, experiment: str = "llama_sql") -> None:
    """Write both parts and print their sizes.

    Args:
        experiment: the default of --experiment.
    """
    options = parser(experiment).parse_args(arguments)
    defaults = EXPERIMENTS[options.experiment]
    with user_errors_exit():
        from rl.data.split import split, write_split

        data, out = options.data or Path(defaults.data), options.out or Path(defaults.folder)
        samples = options.samples or [Path(defaults.folder) / "generate_data" / "0.jsonl"]
        keep_zero = defaults.keep_zero if options.keep_zero is None else options.keep_zero
        threshold = _threshold(options, defaults)
        parts = split(data, samples, threshold=threshold, n=options.n, keep_zero=keep_zero)
        paths = write_split(parts, out)
        paper_sizes = {paper.label: paper.paper_size for paper in EXPERIMENTS.values() if paper.data == defaults.data}
        sys.stdout.write(summary(parts, threshold, options.n, paper_sizes))
        sys.stdout.write(f"Wrote {paths[0]} and {paths[1]}.\n")


def summary(parts: "Split", threshold: int, n: int, paper_sizes: dict[str, tuple[int, int]]) -> str:
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


def _threshold(options: argparse.Namespace, defaults: Experiment) -> int:
    if options.threshold is not None:
        return options.threshold
    if options.n != PAPER_N:
        raise UserError(
            f"The family's threshold assumes {PAPER_N} samples per prompt, not {options.n}: pass --threshold."
        )
    return THRESHOLDS[options.family or defaults.family]


def parser(experiment: str = "llama_sql") -> argparse.ArgumentParser:
    defaults = "\n".join(
        f"  {name:<12} {entry.folder:<26} at least {THRESHOLDS[entry.family]} of {PAPER_N}; "
        f"{'--keep-zero' if entry.keep_zero else '--drop-zero'}"
        for name, entry in EXPERIMENTS.items()
    )
    parser = argparse.ArgumentParser(
        description="Split the training prompts by their samples: near-perfect ones into train_correct.parquet\n"
        "(D_pef), the others into train_wrong.parquet (D_exp) (docs/presampling.md).\n\n"
        f"Defaults by experiment:\n{defaults}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--experiment", choices=EXPERIMENTS, default=experiment, help="the paper's experiment (default: %(default)s)")
    add("--samples", type=Path, nargs="+", metavar="FILE", help="default: the experiment's generate_data/0.jsonl")
    add("--data", type=Path, metavar="FILE", help=f"the parquet that was sampled (SQL: {_SQL}, math: {_MATH})")
    add("--out", type=Path, metavar="FOLDER", help="folder of the two parts")
    families = ", ".join(f"{family} {threshold}" for family, threshold in THRESHOLDS.items())
    add(
        "--family",
        choices=sorted(THRESHOLDS),
        help=f"model family, for the paper's threshold: {families} of {PAPER_N}",
    )
    add("--threshold", type=_positive, help="correct samples of a near-perfect prompt, instead of the family's")
    add("--n", type=_positive, default=PAPER_N, help="samples per prompt (default: %(default)s)")
    zero = parser.add_mutually_exclusive_group()
    zero.add_argument("--keep-zero", action="store_true", default=None, help="keep prompts without a correct sample")
    zero.add_argument("--drop-zero", dest="keep_zero", action="store_false", help="leave them out")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not positive")
    return number
