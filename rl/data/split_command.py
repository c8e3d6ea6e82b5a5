"""Command line of the split: `dph split` and data/*/process_data/exact_correct_id.py.

Its defaults come from the experiment (verl/dph/config/experiment): it reads the files that pre-sampling wrote, and
writes those that the store and training read.
"""

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl.common.cli import output_folder, user_errors_exit
from rl.common.errors import UserError
from rl.common.text import histogram, named, number_of, without_reference
from rl.configuration.methods import DEFAULT_EXPERIMENT, experiment, files, next_step
from rl.configuration.names import CORRECT_NAME, WRONG_NAME, override_value

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from rl.data.split import Split

PAPER_N = 8  # an experiment's near_perfect assumes this many samples per prompt


def main(arguments: list[str] | None = None, *, default: str = DEFAULT_EXPERIMENT) -> None:
    """Write both parts and print their sizes.

    Args:
        default: the experiment, if --experiment names none.
    """
    options = parser(default).parse_args(arguments)
    with user_errors_exit():
        from rl.configuration.variables import check_variables, forget_empty_variables
        from rl.data.split import split, write_split

        check_variables(os.environ)
        forget_empty_variables()
        chosen = options.experiment or default
        settings = settings_of(chosen)
        launch, n = settings.launch, options.n or settings.presample.n
        keep_zero = launch.keep_zero if options.keep_zero is None else options.keep_zero
        if type(launch.near_perfect) is not int:
            raise UserError(f"launch.near_perfect is {launch.near_perfect!r}: give a whole number.")
        if type(keep_zero) is not bool:
            raise UserError(f"launch.keep_zero is {keep_zero!r}: give true or false.")
        if options.threshold is None and n != PAPER_N:
            raise UserError(
                f"The experiment's threshold assumes {PAPER_N} samples per prompt, not {n}: pass --threshold."
            )
        threshold = options.threshold or launch.near_perfect
        data = (options.data or _only(launch.train_files)).expanduser()
        samples = (options.samples or Path(launch.samples)).expanduser()
        correct, wrong = (Path(part).expanduser() for part in (launch.train_correct, launch.train_wrong))
        if options.out:
            correct, wrong = options.out / CORRECT_NAME, options.out / WRONG_NAME
        _check_parts(correct, wrong, [data, samples])
        parts = split(data, samples, threshold=threshold, n=n, keep_zero=keep_zero)
        write_split(parts, correct, wrong)
        sys.stdout.write(summary(parts, threshold, n, launch.paper))
        given = {"train_correct": correct, "train_wrong": wrong} if options.out else {}
        store = shlex.join(["dph", "store", *(f"launch.{name}={override_value(part)}" for name, part in given.items())])
        sys.stdout.write(f"Wrote {correct} and {wrong}.\n")
        if threshold == launch.near_perfect:  # another split may be for another purpose
            sys.stdout.write(next_step(store, chosen))


def _check_parts(correct: Path, wrong: Path, read: list[Path]) -> None:
    """Raise a UserError if the parts are one file, or one of the files that the split reads."""
    if correct.absolute() == wrong.absolute():
        raise UserError(f"{correct} cannot be both parts: launch.train_correct and launch.train_wrong name one file.")
    for part in (correct, wrong):
        for file in read:
            if part.exists() and file.exists() and part.samefile(file):
                raise UserError(f"The split would replace {file}, which it reads: give another folder with --out.")


def settings_of(name: str) -> "DictConfig":
    """The settings in the files of an experiment and of pre-sampling, with the variables that are set."""
    from rl.configuration.own_experiment import check_own_keys
    from rl.configuration.variables import merged, raw

    method, found = files("method")["offline_sampling"], experiment(name)
    # Hydra, which knows verl's settings too, is not in the extra `report`.
    check_own_keys(found, raw(merged([method, *files("experiment").values()])), below="launch.")
    return merged([method, found])


def summary(parts: "Split", threshold: int, n: int, paper: Any) -> str:
    """Histogram of the pass counts, and the two sizes beside the paper's.

    Args:
        paper: the experiment's name, explored and near_perfect.
    """
    zero = "dropped" if parts.dropped_zero else "D_exp"
    failed = len(parts.gold_failed)
    prompts: dict[object, int] = {"no reference": failed} if failed else {}
    prompts |= {count: parts.pass_counts[count] for count in range(n + 1)}
    names = {count: "D_pef" if count >= threshold else "D_exp" if count else zero for count in range(n + 1)}
    lines = histogram(f"correct of {n}", prompts, {"no reference": zero} | names)
    if failed:
        lines.append(f"no reference: {without_reference(parts.gold_failed)}")
    if at_times := parts.gold_failed_at_times:
        lines.append(
            f"The gold answer of {number_of(len(at_times), 'prompt')} failed in some samples ({named(at_times)}), "
            "which count as wrong."
        )
    if parts.overlong:
        lines.append(f"{parts.overlong} prompts are too long to be sampled and are left out.")
    sizes = {
        "this split": (parts.wrong.num_rows, parts.correct.num_rows),
        f"{paper.name}*": (paper.explored, paper.near_perfect),
    }
    width = max(map(len, sizes))
    lines.append(f"{'':<{width}} {'D_exp':>7} {'D_pef':>7} {'D_pef share':>12}")
    for name, (explored, near_perfect) in sizes.items():
        share = near_perfect / max(explored + near_perfect, 1)
        lines.append(f"{name:<{width}} {explored:>7} {near_perfect:>7} {share:>12.1%}")
    lines.append("* in the paper")
    return "\n".join(lines) + "\n"


def _only(train_files: list[str]) -> Path:
    if len(train_files) != 1:
        raise UserError(f"TRAIN_FILE names {len(train_files)} files, but only one is split at a time: pass --data.")
    return Path(train_files[0])


def parser(default: str = DEFAULT_EXPERIMENT) -> argparse.ArgumentParser:
    listed = "\n".join(
        f"  {name:<12} at least {file.launch['near_perfect']} of {PAPER_N}; "
        f"{'--keep-zero' if file.launch['keep_zero'] else '--drop-zero'}"
        for name, file in files("experiment").items()
    )
    parser = argparse.ArgumentParser(
        description="Split the training prompts by their samples: near-perfect ones into train_correct.parquet\n"
        "(D_pef), the others into train_wrong.parquet (D_exp) (docs/reference/training.md).\n\n"
        "It reads the environment variables TRAIN_FILE, DATA_DIR and MODEL_PATH; an option overrides its variable.\n\n"
        f"Near-perfect prompts by experiment:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    known = ", ".join(files("experiment"))
    add("--experiment", metavar="NAME", help=f"{known} (default: {default}), or a file of your own")
    add("--samples", type=Path, metavar="FILE", help="default: DATA_DIR/generate_data/0.jsonl")
    add("--data", type=Path, metavar="FILE", help="the parquet that was sampled (default: TRAIN_FILE)")
    add("--out", type=output_folder, metavar="FOLDER", help="folder of the two parts (default: DATA_DIR)")
    add("--threshold", type=_positive, help="correct samples of a near-perfect prompt (default: the experiment's)")
    add("--n", type=_positive, help=f"samples per prompt (default: {PAPER_N})")
    zero = parser.add_mutually_exclusive_group()
    zero.add_argument("--keep-zero", action="store_true", default=None, help="keep prompts without a correct sample")
    zero.add_argument("--drop-zero", dest="keep_zero", action="store_false", help="leave them out")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
