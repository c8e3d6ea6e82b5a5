"""Run the whole pipeline on a small model, on two cores or a GPU.

    python -m rl.demo.run --out outputs/demo
    python -m rl.demo.run --model smollm2

It makes the task and the base model, pre-samples, splits, stores reference log-probs, trains every method with verl,
and evaluates them (OUT/report.json and OUT/report.html). It starts the launch scripts' programs with the settings of
the model's experiment (rl/demo/models.py). To resume, run the same command again: it skips finished stages.
"""

import argparse
import json
import os
import shlex
import sys
import time
from pathlib import Path

from rl.common.cli import as_shown, output_folder, user_errors_exit
from rl.common.errors import UserError
from rl.common.signals import exit_on_sigterm
from rl.demo.experiment import DEVICES, EVAL_SAMPLES, SPLITS, Experiment, ignore_variables
from rl.demo.methods import METHODS, method_names
from rl.demo.models import MODELS, TINY, DemoModel
from rl.demo.stages import Stage
from rl.evaluation.report.write import PAGE, REPORT, write_report


class Demo(Experiment):
    """The demo in one folder.

    Args:
        out: the folder, absolute.
        methods: names of METHODS.
        steps: training steps per method.
        seed: the seed of sampling, data order and training.
        device: one of DEVICES, by default the model's.
        model: one of MODELS.
        model_path: a pretrained model in place of the model's own.
    """

    def __init__(
        self,
        out: Path,
        methods: list[str],
        steps: int,
        seed: int,
        device: str | None = None,
        model: DemoModel = TINY,
        model_path: str | None = None,
    ):
        super().__init__(out, steps, seed, device=device, model=model, model_path=model_path)
        self.methods = methods

    def stages(self) -> list[Stage]:
        """The stages; the first that can start does so. The base model's evaluation fills the gap at the end."""
        trainings = [self.train(name, METHODS[name], self.own_draw) for name in self.methods]
        evaluations = [self.evaluate(name, self.own_draw) for name in self.methods]
        made = [*self.prepare_model(self.methods), *self.prepare_data(self.methods, self.own_draw)]
        return [*made, *trainings, *evaluations, self.evaluate_base(self.own_draw)]

    @property
    def command(self) -> str:
        """The command that runs this demo."""
        options = {"--out": as_shown(self.out), "--methods": ",".join(self.methods), "--steps": str(self.steps)}
        options |= {"--seed": str(self.seed), "--device": self.device}
        if self.model.name != TINY.name:
            options["--model"] = self.model.name
        variables = f"MODEL_PATH={shlex.quote(self.model_path)} " if self.model_path else ""
        return f"{variables}dph demo {shlex.join(word for option in options.items() for word in option)}"

    def run(self) -> list[str]:
        """Run all stages, write the report, and return one sentence per failed check."""
        from rl.evaluation.analysis.promises import failed_promises

        stages, (before, each) = self.stages(), self.model.minutes
        minutes = before + each * len(self.methods) * self.steps / self.model.steps
        sys.stderr.write(f"{len(stages)} stages, about {minutes:.0f} minutes on two idle cores\n")
        self.run_stages(stages)
        sys.stderr.write("Comparing the methods\n")
        report = self._report()
        return failed_promises(report) if not self.model.pretrained else []

    def _report(self) -> dict:
        from rl.evaluation.outputs import SPEC

        chosen = [METHODS[name] for name in self.methods]
        etas = {f"eta of {method.label}": method.eta for method in chosen if method.eta is not None}
        model, settings = self.model, {"experiment": self.model.experiment, "device": self.device, "seed": self.seed}
        base = f"{self.model_path or model.about}. " if model.pretrained else ""
        spec = self.spec(
            {name: self.entry(METHODS[name], name) for name in self.methods},
            self.own_draw,
            title="DPH-RL demo",
            summary=f"{base}{model.summary} Every method trained {self.steps} steps from this model.",
            commands=[self.command],
            caveats=[model.caveat],
            settings=settings | {"training steps": self.steps} | etas,
            seconds={name: round(seconds, 1) for name, seconds in self.pipeline.seconds.items()},
        )
        spec.write(self.out / SPEC)
        return write_report(spec, self.out)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line. The exit code is 1 if a promise (promises.py) is not held, 2 after a user error."""
    options = parser().parse_args(arguments)
    model = MODELS[options.model]
    exit_on_sigterm()
    model_path = os.environ.get("MODEL_PATH") if model.pretrained else None
    ignore_variables()
    with user_errors_exit(resumes=True):
        methods = method_names(options.methods, model.task)
        steps, out = model.steps if options.steps is None else options.steps, options.out or Path(model.folder)
        if steps < 1:
            raise UserError(f"--steps is {steps}; it must be at least 1.")
        started = time.monotonic()
        demo = Demo(out.resolve(), methods, steps, options.seed, options.device, model, model_path)
        failures = demo.run()
    _print_summary(demo, failures, time.monotonic() - started)
    for failure in failures:
        sys.stderr.write(f"Check failed: {failure}\n")
    return 1 if failures else 0


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rl.demo.run", description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    models = "; ".join(f"{name}: {model.about}" for name, model in MODELS.items())
    add("--model", choices=MODELS, default=TINY.name, help=f"{models} (default: %(default)s)")
    add(
        "--out", type=output_folder, help=f"output folder (default: {' or '.join(of.folder for of in MODELS.values())})"
    )
    add("--methods", default="grpo,recipe", help=f"comma-separated, of {', '.join(METHODS)} (default: %(default)s)")
    steps = " or ".join(str(model.steps) for model in MODELS.values())
    add("--steps", type=int, help=f"training steps of each method (default: {steps})")
    add("--seed", type=int, default=1, help="seed of sampling, data order and training (default: %(default)s)")
    add(
        "--device",
        choices=DEVICES,
        help="cuda: GPUs with vLLM; cuda_hf: without; cpu_bf16: smollm2's default where the CPU multiplies in bfloat16 "
        "(default: cpu)",
    )
    return parser


def _print_summary(demo: Demo, failures: list[str], seconds: float) -> None:
    """Print the main results, the checks, and the next command; the report has everything else."""
    report = json.loads((demo.out / REPORT).read_text())
    sys.stdout.write(f"\n{results_table(report)}\n")
    if not demo.model.pretrained and not failures:
        sys.stdout.write("Self-test passed (fixed thresholds, not significance).\n")
    sys.stdout.write(f"{seconds / 60:.1f} minutes.\n")
    out, dph = as_shown(demo.out), as_shown(Path(sys.executable).with_name("dph"))
    inspect = shlex.join([dph, "inspect", f"{out}/data/generate_data/0.jsonl", f"{out}/data/pef.pt"])
    sys.stdout.write(f"Report, with intervals and tests: {as_shown(demo.out / PAGE)}\nNext:\n")
    sys.stdout.write(f"  {inspect}  # read the base model's samples, and D_pef\n")


def results_table(report: dict) -> str:
    """A row per model: its metrics in domain, and Pass@k out of domain ("new").

    Args:
        report: the content of report.json.
    """
    from rl.evaluation.measures import TERMINAL, heading, metrics_for
    from rl.evaluation.spec import BASE, BASE_AGAIN
    from rl.evaluation.table import Row, Table, as_text
    from rl.evaluation.tables import metric_cell

    metrics = metrics_for(TERMINAL, EVAL_SAMPLES, report["_solved_in"])
    shown = {"in_domain": ("", metrics), "out_of_domain": ("new", [name for name in metrics if "@" in name])}
    columns = {(upper, heading(name)): (split, name) for split, (upper, of) in shown.items() for name in of}
    rows = []
    for method, label in report["_labels"].items():
        if method != BASE_AGAIN:
            cells = [metric_cell(report[method][split], name) for split, name in columns.values()]
            rows.append(Row(label, "", cells))
    inside, outside = (report[BASE][split]["prompts"] for split in SPLITS)
    caption = f"In per cent of {inside} questions, and of {outside} about what training never saw (new):"
    return as_text(Table(caption, list(columns), rows))


if __name__ == "__main__":
    sys.exit(main())
