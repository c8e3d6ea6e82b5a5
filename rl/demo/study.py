"""Train every method on the demo's task with ten seeds and compare them.

    python -m rl.demo.study --out outputs/study --seeds 1,2,3
    python -m rl.demo.study --model smollm2 --methods grpo,maxrl,recipe --seeds 1,2,3 --long-steps 0

One base model, its samples and one set of test questions. A seed is of a split and its D_pef, of the data's order and
of sampling, also in evaluations, the base's among them; a method trains once per seed, and the methods of LONG longer,
with a row for each length. Writes OUT/study.json, study.md and pareto.svg (rl/evaluation/over_seeds.py) and one
report.html per seed. To resume, run the same command again.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl.common.cli import as_shown, output_folder, user_errors_exit
from rl.common.errors import UserError
from rl.common.signals import exit_on_sigterm
from rl.demo.experiment import GROUPS, Experiment, ignore_variables
from rl.demo.methods import METHODS, method_names
from rl.demo.models import MODELS, TINY, DemoModel
from rl.demo.stages import Stage

if TYPE_CHECKING:
    from rl.evaluation.spec import ReportSpec

# The other methods are compared with these.
BASELINES = ("grpo", "dapo", "dapo_exp")
# The primary comparisons, named before the runs (docs/explanation/study.md): each of these methods, after `steps`, with
# GRPO and the base, in these columns.
DECIDED = ("maxrl", "recipe")
IN_COLUMNS = ("Pass@1", "Pass@8", "Pass@32", "Pass@1, out of domain", "Pass@8, out of domain")
OF_DPH = ("rkl", "dph_f", "dph_js", "dph_f_solved")
OF_RECIPE = ("maxrl", "maxrl_dph_js", "recipe", "recipe_anchor")
STUDIED = ("grpo", "dapo", *OF_DPH, "clip_cov", "pkpo", "grpo_cap", "dph_f_solved_cap", *OF_RECIPE)
LONG = ("grpo", "dph_js", *OF_RECIPE, "recipe_explore_all")
SEEDS, LONG_STEPS = range(1, 11), 180
# By model: another one in the folder of a study would start it again from scratch.
FOLDERS = {name: Path("outputs", "study" if name == TINY.name else f"study_{name}") for name in MODELS}
# Of the tiny model: four times the demo's. An evaluation of the pretrained one takes minutes as it is.
IN_DOMAIN_QUESTIONS = 384


@dataclass(frozen=True)
class Row:
    """A row of the tables.

    Attributes:
        trained: the method's name; its training run may have a row after fewer steps too.
    """

    name: str
    trained: str
    label: str
    steps: int

    def run(self, seed: int) -> str:
        """The training run of a seed."""
        return f"{self.trained}_s{seed}"

    def samples(self, seed: int) -> str:
        """The name of the evaluation."""
        return f"{self.name}_s{seed}"


def primary(names: Iterable[str]) -> dict[tuple[str, str], tuple[str, ...]]:
    """{(method, other): columns} of the primary comparisons of these methods."""
    from rl.evaluation.spec import BASE  # loads pydantic, and help must not

    there = {*names, BASE}
    return {(name, other): IN_COLUMNS for name in DECIDED for other in ("grpo", BASE) if {name, other} <= there}


class Study(Experiment):
    """The study in one folder.

    Args:
        out: the folder, absolute.
        methods: names of METHODS.
        seeds: of the training runs and their data.
        steps: training steps per run.
        at_once: runs at a time.
        model: one of MODELS.
        model_path: a pretrained model in place of the model's own.
        long_steps: after which the methods of LONG are evaluated too, above `steps`.
        base_seed: of the base model.
    """

    def __init__(
        self,
        out: Path,
        methods: list[str],
        seeds: list[int],
        steps: int,
        at_once: int,
        *,
        model: DemoModel = TINY,
        model_path: str | None = None,
        long_steps: Sequence[int] = (),
        base_seed: int = 0,
    ):
        in_domain = model.in_domain if model.pretrained else IN_DOMAIN_QUESTIONS
        super().__init__(
            *(out, steps),
            seed=1,
            model=model,
            model_path=model_path,
            at_once=at_once,
            in_domain=in_domain,
            base_seed=base_seed,
        )
        self.methods, self.seeds, self.long_steps = methods, seeds, long_steps

    def rows(self) -> list[Row]:
        """The methods, then again those that train longer."""
        rows = [Row(name, name, METHODS[name].label, self.steps) for name in self.methods]
        return rows + [
            Row(f"{name}_{steps}", name, f"{METHODS[name].label}, {steps} steps", steps)
            for steps in self.long_steps
            for name in self.methods
            if name in LONG
        ]

    def stages(self) -> list[Stage]:
        """Seed by seed, so that an interrupted study has every method once."""
        stages = self.prepare_model(self.methods)
        for seed in self.seeds:
            draw = self.draw(seed)
            stages += [*self.prepare_data(self.methods, draw), self.evaluate_base(draw)]
            for name in self.methods:
                rows = [row for row in self.rows() if row.trained == name]
                stages.append(self.train(rows[0].run(seed), METHODS[name], draw, [row.steps for row in rows]))
            for row in self.rows():
                stages.append(self.evaluate(row.samples(seed), draw, run=row.run(seed), steps=row.steps))
        return stages

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
        specs = {seed: self.spec_of(seed) for seed in self.seeds}
        return write_seeds(self.out, "study", specs, BASELINES, facts, primary(self.methods))

    def spec_of(self, seed: int) -> "ReportSpec":
        """The specification of a seed's report."""
        summary = f"One of the seeds of the study: {self.steps} steps of every method. {self.model.summary}"
        entries = {
            row.name: self.entry(replace(METHODS[row.trained], label=row.label), row.run(seed), row.samples(seed))
            | {"last_step": row.steps}
            for row in self.rows()
        }
        content: dict[str, Any] = {"title": f"DPH-RL study, seed {seed}", "summary": summary}
        if self.anchored(self.methods):
            # The anchor is about one of the databases out of domain, and about no other.
            content["groups"] = [*GROUPS, "schema"]
        return self.spec(entries, self.draw(seed), **content)


def main(arguments: list[str] | None = None) -> int:
    """The command line; exit code 2 after a user error."""
    options = parser().parse_args(arguments)
    exit_on_sigterm()
    model = MODELS[options.model]
    model_path = os.environ.get("MODEL_PATH") if model.pretrained else None
    ignore_variables()
    started = time.monotonic()
    with user_errors_exit(resumes=True):
        methods = method_names(options.methods, model.task)
        steps = model.steps if options.steps is None else options.steps
        seeds = list(dict.fromkeys(_numbers("--seeds", options.seeds)))
        for name, value in {"steps": steps, "jobs": options.jobs}.items():
            if value < 1:
                raise UserError(f"--{name} is {value}; it must be at least 1.")
        longer = [] if options.long_steps in ("", "0") else _numbers("--long-steps", options.long_steps)
        if [steps, *longer] != sorted({steps, *longer}):
            raise UserError(
                f"--long-steps is {options.long_steps}; the numbers must rise and be above --steps ({steps})."
            )
        study = Study(
            *((options.out or FOLDERS[model.name]).resolve(), methods, seeds, steps, options.jobs),
            model=model,
            model_path=model_path,
            long_steps=longer,
            base_seed=options.base_seed,
        )
        table = study.run()
    sys.stdout.write(f"{table.read_text()}\n{(time.monotonic() - started) / 60:.1f} minutes.\n")
    written = [path for pattern in ("study*.*", "pareto*.svg") for path in sorted(table.parent.glob(pattern))]
    sys.stdout.writelines(f"{as_shown(path)}\n" for path in written)
    return 0


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rl.demo.study", description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    models = "; ".join(f"{name}: {model.about}" for name, model in MODELS.items())
    add("--model", choices=MODELS, default=TINY.name, help=f"{models} (default: %(default)s)")
    add("--out", type=output_folder, help=f"folder of everything (default: {' or '.join(map(str, FOLDERS.values()))})")
    add(
        "--methods",
        default=",".join(STUDIED),
        help=f"comma-separated, of {', '.join(METHODS)} (default: %(default)s)",
    )
    add("--seeds", default=",".join(map(str, SEEDS)), help="of the runs, comma-separated (default: %(default)s)")
    lengths = " or ".join(str(model.steps) for model in MODELS.values())
    add("--steps", type=int, help=f"training steps of each run (default: {lengths})")
    add(
        "--long-steps",
        default=str(LONG_STEPS),
        help=f"training steps of {', '.join(LONG)}, evaluated at --steps too; comma-separated, 0: as the others "
        "(default: %(default)s)",
    )
    add("--base-seed", type=int, default=0, help="of the base model (default: %(default)s)")
    add("--jobs", type=int, default=2, help="runs at a time, a core each; smollm2: 8 GB each (default: %(default)s)")
    return parser


def _numbers(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{option} {text!r}: give whole numbers, separated by commas.") from None


if __name__ == "__main__":
    sys.exit(main())
