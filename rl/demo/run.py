"""Run the whole pipeline on a small model, on two cores or a GPU.

    python -m rl.demo.run --out outputs/demo
    python -m rl.demo.run --model smollm2

It makes the task and the base model, pre-samples, splits, stores reference log-probs, trains every method with verl,
and evaluates them (OUT/report.json and OUT/report.html). It starts the launch scripts' programs with the settings of
the model's experiment (rl/demo/models.py). To resume, run the same command again: it skips finished stages.
"""

import argparse
import shlex
import sys
import time
from pathlib import Path

from rl.common.cli import as_shown, user_errors_exit
from rl.common.signals import exit_on_sigterm
from rl.demo.experiment import DEVICES, EVAL_SAMPLES, SPLITS, Draw, Experiment, add_options, chosen, whole
from rl.demo.methods import METHODS
from rl.demo.models import MODELS
from rl.demo.stages import Stage
from rl.evaluation.report.write import PAGE, write_report

FOLDERS = {name: model.folder for name, model in MODELS.items()}


class Demo(Experiment):
    """The demo in one folder, with one seed for everything."""

    @property
    def own_draw(self) -> Draw:
        return Draw(self.data, self.seed)

    def stages(self) -> list[Stage]:
        return [*self.prepare_model(), *self.stages_of(self.own_draw)]

    def run(self) -> dict:
        """Run all stages, write the report, and return its content."""
        from rl.evaluation.outputs import SPEC

        stages, (before, each) = self.stages(), self.model.minutes
        minutes = before + each * len(self.methods) * self.steps / self.model.steps
        sys.stderr.write(f"{len(stages)} stages, about {minutes:.0f} minutes on two idle cores\n")
        self.run_stages(stages)
        sys.stderr.write("Comparing the methods\n")
        model = self.model
        base = f"{self.model_path or model.about}. " if model.pretrained else ""
        settings = {"experiment": model.experiment, "device": self.device, "seed": self.seed}
        methods = [METHODS[name] for name in self.methods]
        etas = {f"eta of {method.label}": method.eta for method in methods if method.eta is not None}
        variables = f"MODEL_PATH={shlex.quote(self.model_path)} " if self.model_path else ""
        spec = self.spec(
            self.own_draw,
            title="DPH-RL demo",
            summary=f"{base}{model.summary} Every method trained {self.steps} steps from this model.",
            commands=[variables + shlex.join(["dph", "demo", *sys.argv[1:]])],
            caveats=[model.caveat],
            settings=settings | {"training steps": self.steps} | etas,
            seconds={name: round(seconds, 1) for name, seconds in self.pipeline.seconds.items()},
        )
        spec.write(self.out / SPEC)
        return write_report(spec, self.out)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line. The exit code is 1 if a promise (promises.py) is not held, 2 after a user error."""
    options = parser().parse_args(arguments)
    exit_on_sigterm()
    started = time.monotonic()
    with user_errors_exit(resumes=True):
        demo = Demo(**chosen(options, FOLDERS), seed=options.seed, device=options.device)
        report = demo.run()
    sys.stdout.write(f"\n{results_table(report)}\n")
    code = 0 if demo.model.pretrained else check(report)
    sys.stdout.write(f"{(time.monotonic() - started) / 60:.1f} minutes.\n")
    out, dph = as_shown(demo.out), as_shown(Path(sys.executable).with_name("dph"))
    inspect = shlex.join([dph, "inspect", f"{out}/data/generate_data/0.jsonl", f"{out}/data/pef.pt"])
    sys.stdout.write(f"Report, with intervals and tests: {out}/{PAGE}\nNext:\n")
    sys.stdout.write(f"  {inspect}  # read the base model's samples, and D_pef\n")
    return code


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rl.demo.run", description=__doc__.split("\n\n")[0])
    add_options(parser, "grpo,recipe", FOLDERS)
    add = parser.add_argument
    add("--seed", type=whole, default=1, help="seed of sampling, data order and training (default: %(default)s)")
    add(
        "--device",
        choices=DEVICES,
        help="cuda: GPUs with vLLM; cuda_hf: without; cpu_bf16: smollm2's default where the CPU multiplies in bfloat16 "
        "(default: cpu)",
    )
    return parser


def check(report: dict) -> int:
    """The exit code; says which promises a report does not hold."""
    from rl.evaluation.analysis.promises import failed_promises

    failures = failed_promises(report)
    sys.stderr.writelines(f"Check failed: {failure}\n" for failure in failures)
    if not failures:
        sys.stdout.write("Self-test passed (fixed thresholds, not significance).\n")
    return 1 if failures else 0


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
