"""Train every method on the demo's task with several seeds and compare them.

    python -m rl.demo.study --out outputs/study --seeds 1,2,3

One base model, one D_pef and one set of test questions; a training run per method and seed, two at a time. Writes
OUT/study.json, study.md, study.svg and pareto.svg (rl/evaluation/report/seeds.py) and one report.html per seed. Re-run
the same command to resume.
"""

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.common.signals import exit_on_sigterm
from rl.demo.experiment import Experiment, ignore_variables
from rl.demo.methods import METHODS, PAPER_METHODS, method_names
from rl.demo.stages import Stage

if TYPE_CHECKING:
    from rl.evaluation.spec import ReportSpec

# The other methods are compared with these.
BASELINES = ("grpo", "dapo", "dapo_exp")


class Study(Experiment):
    """The study in one folder.

    Args:
        out: the folder, absolute.
        methods: names of METHODS.
        seeds: of the training runs.
        steps: training steps per run.
        at_once: runs at a time.
    """

    def __init__(self, out: Path, methods: list[str], seeds: list[int], steps: int, at_once: int):
        super().__init__(out, steps, seed=1, at_once=at_once)
        self.methods, self.seeds = methods, seeds

    def stages(self) -> list[Stage]:
        """Seed by seed, so that an interrupted study has every method once."""
        stages = [*self.prepare(self.methods), self.evaluate_base()]
        for seed in self.seeds:
            for method in self.methods:
                name, label = run_name(method, seed), f"{METHODS[method].label}, seed {seed}"
                stages += [self.train(name, replace(METHODS[method], label=label), seed), self.evaluate(name, label)]
        return stages

    def run(self) -> Path:
        """Run all stages and compare. Returns the path of the table."""
        from rl.evaluation.report.seeds import write_seeds

        self.run_stages(self.stages())
        seconds = self.pipeline.seconds
        facts = {"steps": self.steps, "seeds": self.seeds, "at_once": self.at_once, "seconds_of_stages": seconds}
        return write_seeds(self.out, "study", {seed: self.spec_of(seed) for seed in self.seeds}, BASELINES, facts)

    def spec_of(self, seed: int) -> "ReportSpec":
        """The specification of a seed's report."""
        summary = f"One of the seeds of the study: {self.steps} steps of every method on the tiny task."
        runs = {method: run_name(method, seed) for method in self.methods}
        return self.spec(runs, title=f"DPH-RL study, seed {seed}", summary=summary)


def run_name(method: str, seed: int) -> str:
    return f"{method}_s{seed}"


def main(arguments: list[str] | None = None) -> int:
    """The command line; exit code 2 after a user error."""
    options = parser().parse_args(arguments)
    exit_on_sigterm()
    ignore_variables()
    started = time.monotonic()
    with user_errors_exit(resumes=True):
        methods = method_names(options.methods)
        seeds = _seeds(options.seeds)
        for name in ("steps", "jobs"):
            if getattr(options, name) < 1:
                raise UserError(f"--{name} is {getattr(options, name)}; it must be at least 1.")
        study = Study(options.out.resolve(), methods, seeds, options.steps, options.jobs)
        table = study.run()
    memory = f", at most {study.pipeline.peak_memory / 1e9:.1f} GB of memory" if study.pipeline.peak_memory else ""
    sys.stdout.write(f"{table.read_text()}\n{(time.monotonic() - started) / 60:.1f} minutes{memory}.\n")
    written = [path for pattern in ("study*.*", "pareto*.svg") for path in sorted(table.parent.glob(pattern))]
    sys.stdout.writelines(f"{os.path.relpath(path)}\n" for path in written)
    return 0


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rl.demo.study", description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--out", type=Path, default=Path("outputs/study"), help="folder of everything (default: %(default)s)")
    add(
        "--methods",
        default=",".join(PAPER_METHODS),
        help=f"comma-separated, of {', '.join(METHODS)} (default: %(default)s)",
    )
    add("--seeds", default="1,2,3", help="of the training runs, comma-separated (default: %(default)s)")
    add("--steps", type=int, default=60, help="training steps of each run (default: %(default)s)")
    add("--jobs", type=int, default=2, help="runs at a time, each with one busy core (default: %(default)s)")
    return parser


def _seeds(text: str) -> list[int]:
    try:
        seeds = [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--seeds {text!r}: give whole numbers, separated by commas.") from None
    return list(dict.fromkeys(seeds))


if __name__ == "__main__":
    sys.exit(main())
