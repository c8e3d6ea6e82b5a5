"""Command line of the splitter: `dph split` and data/*/process_data/exact_correct_id.py.

Its defaults are the variables that the launch scripts read (docs/reference/scripts.md), so that it finds what the step
before it wrote and writes what the next one reads.
"""

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.configuration.names import model_name
from rl.data.wording import without_reference

if TYPE_CHECKING:
    from rl.data.split import Split

# Correct samples of 8 that make a prompt near-perfect, by model family (docs/explanation/method.md). OmniSQL is a Qwen.
THRESHOLDS = {"llama": 6, "qwen": 7}
PAPER_N = 8
BAR_WIDTH = 40


@dataclass(frozen=True)
class Experiment:
    """One of the paper's experiments (verl/dph/config/experiment): the splitter's defaults."""

    label: str  # in the paper
    data: str  # the parquet that was sampled
    model: str
    family: str
    keep_zero: bool  # whether prompts without a correct sample stay in D_exp
    paper_size: tuple[int, int]  # (D_exp, D_pef) in the paper

    def folder(self, model: str) -> Path:
        """Of the samples of a model and of the two parts, as the experiments name it."""
        return Path(self.data).parent / model_name(model)


_SQL, _MATH = "data/sql/bird_train.parquet", "data/math/dapo_train.parquet"
_LLAMA, _OMNISQL, _QWEN = "meta-llama/Llama-3.1-8B-Instruct", "seeklhy/OmniSQL-32B", "Qwen/Qwen2.5-Math-7B"
EXPERIMENTS = {
    "llama_sql": Experiment("Llama-SQL", _SQL, _LLAMA, "llama", True, (6710, 2248)),
    "omnisql_sql": Experiment("OmniSQL-32B", _SQL, _OMNISQL, "qwen", True, (5169, 3789)),
    "llama_math": Experiment("Llama-Math", _MATH, _LLAMA, "llama", False, (4599, 1248)),
    "qwen_math": Experiment("Qwen2.5-Math", _MATH, _QWEN, "qwen", False, (7009, 3199)),
}


def main(arguments: list[str] | None = None, *, experiment: str = "llama_sql") -> None:
    """Write both parts and print their sizes.

    Args:
        experiment: the default of --experiment, if SETTINGS names none.
    """
    options = parser(experiment).parse_args(arguments)
    with user_errors_exit():
        from rl.data.split import split, write_split

        defaults = EXPERIMENTS[_experiment(options, experiment)]
        data, samples, correct, wrong = _paths(options, defaults)
        keep_zero = defaults.keep_zero if options.keep_zero is None else options.keep_zero
        threshold = _threshold(options, defaults)
        parts = split(data, samples, threshold=threshold, n=options.n, keep_zero=keep_zero)
        write_split(parts, correct, wrong)
        paper_sizes = {paper.label: paper.paper_size for paper in EXPERIMENTS.values() if paper.data == defaults.data}
        sys.stdout.write(summary(parts, threshold, options.n, paper_sizes))
        sys.stdout.write(f"Wrote {correct} and {wrong}.\n")


def summary(parts: "Split", threshold: int, n: int, paper_sizes: dict[str, tuple[int, int]]) -> str:
    """Histogram of the pass counts, and the two sizes beside the paper's."""
    failed = len(parts.gold_failed)
    rows = [(str(count), parts.pass_counts[count]) for count in range(n + 1)]
    rows[:0] = [("no reference", failed)] if failed else []
    most = max(prompts for _, prompts in rows) or 1
    lines = [f"correct of {n}   prompts"]
    for name, prompts in rows:
        count = int(name) if name.isdecimal() else 0
        part = "D_pef" if count >= threshold else "D_exp" if count or not parts.dropped_zero else "dropped"
        lines.append(f"{name:>12} {prompts:>9}  {part:<7} {'#' * round(BAR_WIDTH * prompts / most)}".rstrip())
    if failed:
        lines.append(f"no reference: {without_reference(parts.gold_failed)}")
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


def _experiment(options: argparse.Namespace, default: str) -> str:
    name = options.experiment or os.environ.get("SETTINGS") or default
    if name in EXPERIMENTS:
        return name
    if not (options.data and options.samples and options.out):
        raise UserError(
            f"SETTINGS={name} is a file of your own, which only the launch scripts read: pass --data, --samples and "
            "--out, or --experiment and, as variables, what the file says of TRAIN_FILE, DATA_DIR and SAMPLES."
        )
    return default


def _paths(options: argparse.Namespace, experiment: Experiment) -> tuple[Path, list[Path], Path, Path]:
    """The data, its samples and the two parts: an option goes before the variable that the scripts read, and this
    before the experiment's default."""
    from rl.data.split import CORRECT_NAME, WRONG_NAME

    def path(variable: str, default: Path) -> Path:
        return Path(os.environ.get(variable) or default)

    project = Path(os.environ.get("PROJECT_DIR") or "")
    folder = path("DATA_DIR", project / experiment.folder(os.environ.get("MODEL_PATH") or experiment.model))
    data = options.data or path("TRAIN_FILE", project / experiment.data)
    samples = options.samples or [path("SAMPLES", folder / "generate_data" / "0.jsonl")]
    if options.out:
        return data, samples, options.out / CORRECT_NAME, options.out / WRONG_NAME
    return data, samples, path("TRAIN_CORRECT", folder / CORRECT_NAME), path("TRAIN_WRONG", folder / WRONG_NAME)


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
        f"  {name:<12} {entry.folder(entry.model)!s:<26} at least {THRESHOLDS[entry.family]} of {PAPER_N}; "
        f"{'--keep-zero' if entry.keep_zero else '--drop-zero'}"
        for name, entry in EXPERIMENTS.items()
    )
    parser = argparse.ArgumentParser(
        description="Split the training prompts by their samples: near-perfect ones into train_correct.parquet\n"
        "(D_pef), the others into train_wrong.parquet (D_exp) (docs/reference/presampling.md).\n\n"
        "The launch scripts' variables SETTINGS, TRAIN_FILE, DATA_DIR, MODEL_PATH, SAMPLES, SAMPLES_PER_PROMPT,\n"
        f"TRAIN_CORRECT and TRAIN_WRONG count here, too.\n\nDefaults by experiment:\n{defaults}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--experiment", choices=EXPERIMENTS, help=f"the paper's experiment (default: SETTINGS, else {experiment})")
    add("--samples", type=Path, nargs="+", metavar="FILE", help="default: SAMPLES, else DATA_DIR/generate_data/0.jsonl")
    add("--data", type=Path, metavar="FILE", help=f"the parquet that was sampled (TRAIN_FILE; {_SQL}, {_MATH})")
    add("--out", type=Path, metavar="FOLDER", help="folder of the two parts (default: DATA_DIR)")
    families = ", ".join(f"{family} {threshold}" for family, threshold in THRESHOLDS.items())
    add(
        "--family",
        choices=sorted(THRESHOLDS),
        help=f"model family, for the paper's threshold: {families} of {PAPER_N}",
    )
    add("--threshold", type=_positive, help="correct samples of a near-perfect prompt, instead of the family's")
    samples_per_prompt = os.environ.get("SAMPLES_PER_PROMPT") or PAPER_N
    add("--n", type=_positive, default=samples_per_prompt, help="samples per prompt (default: %(default)s)")
    zero = parser.add_mutually_exclusive_group()
    zero.add_argument("--keep-zero", action="store_true", default=None, help="keep prompts without a correct sample")
    zero.add_argument("--drop-zero", dest="keep_zero", action="store_false", help="leave them out")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not positive")
    return number
