"""Check that every method trains on two ranks, and resumes from a checkpoint with the same numbers.

    python benchmarks/method_matrix.py [--out outputs/method_matrix] [--methods pkpo,chord_mu]

Each method trains two steps on the demo's task with two ranks and a checkpoint per step. Then the second step is
undone, as if the run had been killed after its first checkpoint, and the same command runs again. Every metric of step
2, except times and memory, must have the same bits as before. The program writes OUT/matrix.md; its exit code is 1 if a
method failed. Run the same command again to resume.
"""

import argparse
import math
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from rl.common import atomic_write
from rl.common.cli import user_errors_exit
from rl.common.signals import exit_on_sigterm
from rl.common.training_metrics import MEASURED
from rl.data.training_run import LOGS, NEWEST
from rl.demo.experiment import Experiment
from rl.demo.methods import METHODS, method_names
from rl.demo.stages import Stage
from rl.evaluation.analysis.training_log import read_training_log

STEPS, RANKS = 2, 2
# One name for each file of verl/dph/config/method that trains.
DEFAULT = (
    "grpo,dapo,rkl,dph_f,dph_js,dph_js_def,dph_alpha,kl_cov,clip_cov,entropy_bonus,grpo_passk,pkpo,nsr,"
    "w_reinforce,zero_success,chord_mu"
)


class Matrix(Experiment):
    """Two training runs per method: two steps at once, and the second step again from the first checkpoint."""

    def __init__(self, out: Path, methods: list[str]):
        super().__init__(out, STEPS, seed=1, at_once=1)
        self.methods = methods

    def run(self) -> tuple[Path, bool]:
        """Return the path of the table, and whether every resumed run has the same numbers.

        Raises:
            UserError: a program failed.
        """
        self.run_stages([*self.prepare(self.methods), *(self._on_two_ranks(name, name) for name in self.methods)])
        for name in self.methods:
            take_back_last_step(self._run(name), self._run(resumed(name)))
        self.run_stages([self._resumption(name) for name in self.methods])
        rows = ["| Method | Script | Ranks | Resumed, metrics of step 2 |", "|---|---|---|---|"]
        different = {name: self._different(name) for name in self.methods}
        for name, metrics in different.items():
            count, found = metrics
            of_metrics = f"{count} the same"
            if found:
                most = max(found.values())
                of_metrics = f"{len(found)} of {count} differ, by at most {most:.0e} of the value: {', '.join(found)}"
            rows.append(f"| {METHODS[name].label} | `{METHODS[name].method}.sh` | {RANKS} | {of_metrics} |")
        table = self.out / "matrix.md"
        atomic_write.write_text(table, "\n".join(rows) + "\n")
        return table, not any(found for _, found in different.values())

    def _run(self, name: str) -> Path:
        return self.out / "runs" / name

    def _on_two_ranks(self, name: str, run: str) -> Stage:
        stage = self.train(run, METHODS[name], self.own_draw)
        words = [f"trainer.n_gpus_per_node={RANKS}", "trainer.save_freq=1"]
        environment = stage.environment | {"OMP_NUM_THREADS": "1"}
        return replace(stage, command=[*stage.command, *words], environment=environment)

    def _resumption(self, name: str) -> Stage:
        stage = self._on_two_ranks(name, resumed(name))
        # The run's folder exists before the stage starts, and stays.
        return replace(stage, title=f"{stage.title}, resumed", outputs=[], needs=[])

    def _different(self, name: str) -> tuple[int, dict[str, float]]:
        """The number of metrics of step 2, and the relative difference of those that differ (inf: one run lacks it)."""
        whole, again = (read_training_log(self._run(run) / LOGS) for run in (name, resumed(name)))
        metrics = {metric for metric in whole.keys() | again.keys() if not metric.startswith(MEASURED)}
        values = {metric: [log.get(metric, {}).get(STEPS) for log in (whole, again)] for metric in sorted(metrics)}
        return len(metrics), {metric: _relative(*pair) for metric, pair in values.items() if pair[0] != pair[1]}


def resumed(name: str) -> str:
    return f"{name}_resumed"


def _relative(first: float | None, second: float | None) -> float:
    if first is None or second is None:
        return math.inf
    return abs(first - second) / max(abs(first), abs(second))


def take_back_last_step(run: Path, copy: Path) -> None:
    """Copy a run in its state after the last checkpoint but one, without its logs."""
    if copy.exists():
        return
    with atomic_write.replacing(copy) as temporary:
        shutil.copytree(run, temporary, ignore=shutil.ignore_patterns(f"global_step_{STEPS}", LOGS))
        (temporary / NEWEST).write_text(str(STEPS - 1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, default=Path("outputs/method_matrix"), help="default: %(default)s")
    parser.add_argument("--methods", default=DEFAULT, help=f"comma-separated, of {', '.join(METHODS)}")
    options = parser.parse_args()
    exit_on_sigterm()
    with user_errors_exit(resumes=True):
        table, same = Matrix(options.out.resolve(), method_names(options.methods)).run()
    sys.stdout.write(f"{table.read_text()}\n{os.path.relpath(table)}\n")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
