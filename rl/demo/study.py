"""Train every method on the demo's task with ten seeds and compare them.

    python -m rl.demo.study --out outputs/study --seeds 1,2,3
    python -m rl.demo.study --model smollm2 --methods grpo,maxrl,recipe --seeds 1,2,3 --long-steps 0

One base model, its samples and one set of test questions. A seed is of a split and its D_pef, of the data's order and
of sampling, also in evaluations, the base's among them; a method trains once per seed, and the methods of LONG longer,
with a row for each length. Writes OUT/study.json, study.md and pareto.svg (rl/evaluation/over_seeds.py) and one
report.html per seed. To resume, run the same command again.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rl.common.cli import as_shown, user_errors_exit
from rl.common.signals import exit_on_sigterm
from rl.configuration.names import override_value
from rl.demo.experiment import Draw, Experiment, add_options, at_least_1, chosen, whole
from rl.demo.methods import LONG, METHODS, OF_RECIPE
from rl.demo.models import MODELS, TINY
from rl.demo.stages import Stage

# The other methods are compared with these.
BASELINES = ("grpo", "dapo", "dapo_exp")
# The primary comparisons, named before the runs (docs/explanation/study.md): each of these methods, after `steps`, with
# GRPO and the base, in these columns.
DECIDED = ("maxrl", "recipe")
IN_COLUMNS = ("Pass@1", "Pass@8", "Pass@32", "Pass@1, out of domain", "Pass@8, out of domain")
OF_DPH = ("rkl", "dph_f", "dph_js", "dph_f_solved")
STUDIED = ("grpo", "dapo", *OF_DPH, "clip_cov", "pkpo", "grpo_cap", "dph_f_solved_cap", *OF_RECIPE)
SEEDS, LONG_STEPS = range(1, 11), 180
# By model: another one in the folder of a study would start it again from scratch.
FOLDERS = {name: "outputs/study" if name == TINY.name else f"outputs/study_{name}" for name in MODELS}
# Of the tiny model: four times the demo's. An evaluation of the pretrained one takes minutes as it is.
IN_DOMAIN_QUESTIONS = 384


def primary(names: Iterable[str]) -> dict[tuple[str, str], tuple[str, ...]]:
    """{(method, other): columns} of the primary comparisons of these methods."""
    from rl.evaluation.spec import BASE  # loads pydantic, and help must not

    there = {*names, BASE}
    return {(name, other): IN_COLUMNS for name in DECIDED for other in ("grpo", BASE) if {name, other} <= there}


class Study(Experiment):
    """The study in one folder.

    Args:
        seeds: of the training runs and their data.
        at_once: runs at a time.
        long_steps: after which the methods of LONG are evaluated too.
        arguments: of Experiment.
    """

    def __init__(self, *, seeds: list[int], at_once: int, long_steps: Sequence[int] = (), **arguments: Any):
        super().__init__(seed=1, at_once=at_once, **arguments)
        self.seeds, self.long_steps = seeds, long_steps
        if not self.model.pretrained:
            self.in_domain = IN_DOMAIN_QUESTIONS

    def draw(self, seed: int) -> Draw:
        """A seed's split and stores beside those of other seeds."""
        folder = self.data / f"seed_{seed}"
        data, samples = map(override_value, (folder, self._presampled))
        return Draw(folder, seed, f"_s{seed}", (f"launch.data={data}", f"launch.samples={samples}"))

    def stages(self) -> list[Stage]:
        """Seed by seed, so that an interrupted study has every method once."""
        stages = self.prepare_model()
        return stages + [stage for seed in self.seeds for stage in self.stages_of(self.draw(seed))]

    def run(self) -> Path:
        """Run all stages and compare. Returns the path of the table."""
        from rl.evaluation.over_seeds import write_seeds

        self.run_stages(self.stages())
        facts = {
            "definitions": {name: METHODS[name].definition for name in self.methods},
            "steps": self.steps,
            "long_steps": list(self.long_steps),
            "base_seed": self.base_seed,
            "at_once": self.at_once,
            "seconds_of_stages": self.pipeline.seconds,
        }
        summary = f"One of the seeds of the study: {self.steps} steps of every method. {self.model.summary}"
        specs = {
            seed: self.spec(self.draw(seed), title=f"DPH-RL study, seed {seed}", summary=summary) for seed in self.seeds
        }
        return write_seeds(self.out, "study", specs, BASELINES, facts, primary(self.methods))


def main(arguments: list[str] | None = None) -> int:
    """The command line; exit code 2 after a user error."""
    options = parser().parse_args(arguments)
    exit_on_sigterm()
    started = time.monotonic()
    with user_errors_exit(resumes=True):
        arguments_of = chosen(options, FOLDERS)
        study = Study(
            **arguments_of,
            seeds=list(dict.fromkeys(options.seeds)),
            at_once=options.jobs,
            long_steps=sorted({*options.long_steps} - {0, arguments_of["steps"]}),
            base_seed=options.base_seed,
        )
        table = study.run()
    sys.stdout.write(f"{table.read_text()}\n{(time.monotonic() - started) / 60:.1f} minutes.\n{as_shown(table)}\n")
    return 0


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rl.demo.study", description=__doc__.split("\n\n")[0])
    add_options(parser, ",".join(STUDIED), FOLDERS)
    add = parser.add_argument
    seeds = ",".join(map(str, SEEDS))
    add("--seeds", type=numbers, default=seeds, help="of the runs, comma-separated (default: %(default)s)")
    add(
        "--long-steps",
        type=numbers,
        default=str(LONG_STEPS),
        help=f"training steps of {', '.join(LONG)}, evaluated at --steps too; comma-separated, 0: as the others "
        "(default: %(default)s)",
    )
    add("--base-seed", type=whole, default=0, help="of the base model (default: %(default)s)")
    jobs = "runs at a time, a core each; smollm2: 8 GB each (default: %(default)s)"
    add("--jobs", type=at_least_1, default=2, help=jobs)
    return parser


def numbers(text: str) -> list[int]:
    """Whole numbers, separated by commas."""
    return [whole(part) for part in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
