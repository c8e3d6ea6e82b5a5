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
from typing import TYPE_CHECKING

from rl.common.cli import as_shown, output_folder, user_errors_exit
from rl.common.errors import UserError
from rl.common.signals import exit_on_sigterm
from rl.demo.experiment import (
    DEVICES,
    EVAL_SAMPLES,
    SAMPLES_PER_PROMPT,
    SPLITS,
    Experiment,
    check_seed,
    ignore_variables,
    settings,
)
from rl.demo.methods import EXPERT, METHODS, method_names
from rl.demo.models import MODELS, TINY, DemoModel
from rl.demo.stages import Stage
from rl.evaluation.report.write import PAGE, REPORT, write_report

if TYPE_CHECKING:
    from omegaconf import DictConfig

# Settings whose defaults are the model's.
_OF_MODEL = ("folder", "methods", "steps")


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
        evaluations = [self.evaluate(name, METHODS[name].label, self.own_draw) for name in self.methods]
        return [*self.prepare(self.methods), *trainings, *evaluations, self.evaluate_base(self.own_draw)]

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

        self.run_stages(self.stages())
        sys.stderr.write("Comparing the methods\n")
        report = self._report()
        return failed_promises(report) if self.model.has_checks else []

    def _report(self) -> dict:
        from rl.evaluation.outputs import SPEC

        config = settings("js_kl", self.model.experiment)
        chosen = [METHODS[name] for name in self.methods]
        etas = {f"eta of {method.label}": method.eta for method in chosen if method.eta is not None}
        spec = self.spec(
            {name: self.entry(METHODS[name], name) for name in self.methods},
            self.own_draw,
            title="DPH-RL demo",
            summary=" ".join([self._summary(config), *(f"{of.label} {of.about}." for of in chosen if of.about)]),
            commands=[self.command],
            caveats=list(self.model.caveats),
            settings=self.stated_settings()
            | {"device": self.device, "seed": self.seed, "trainer.total_training_steps": self.steps}
            | etas,
            seconds={name: round(seconds, 1) for name, seconds in self.pipeline.seconds.items()},
        )
        spec.write(self.out / SPEC)
        return write_report(spec, self.out)

    def _summary(self, config: "DictConfig") -> str:
        """The model's summary with the values of an experiment's settings."""
        return self.model.summary.format(
            title=self.base_title,
            k=SAMPLES_PER_PROMPT,
            train=self.model.train,
            threshold=config.launch.near_perfect,
            steps=self.steps,
            prompts=config.data.train_batch_size,
            n=config.actor_rollout_ref.rollout.n,
        )


def main(arguments: list[str] | None = None) -> int:
    """Run the command line. The exit code is 1 if a promise (promises.py) is not held, 2 after a user error."""
    options = parser().parse_args(arguments)
    model = MODELS[options.model]
    exit_on_sigterm()
    model_path = os.environ.get("MODEL_PATH") if model.pretrained else None
    ignore_variables()
    with user_errors_exit(resumes=True):
        methods = method_names(model.methods if options.methods is None else options.methods)
        steps, out = model.steps if options.steps is None else options.steps, options.out or Path(model.folder)
        if steps < 1:
            raise UserError(f"--steps is {steps}; it must be at least 1.")
        check_seed("--seed", options.seed)
        if not model.has_expert and (of_expert := [name for name in methods if METHODS[name].store == EXPERT]):
            raise UserError(
                f"--methods names {', '.join(of_expert)}, whose expert responses only the task of --model {TINY.name} "
                "has: leave it out."
            )
        if model_path:
            from rl.checks.files import check_model  # loads omegaconf, and help must not

            check_model("MODEL_PATH", model_path)
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
    of_models = {key: " or ".join(dict.fromkeys(str(getattr(of, key)) for of in MODELS.values())) for key in _OF_MODEL}
    add("--model", choices=MODELS, default=TINY.name, help=f"{models} (default: %(default)s)")
    add("--out", type=output_folder, help=f"output folder (default: {of_models['folder']})")
    add("--methods", help=f"comma-separated, of {', '.join(METHODS)} (default: {of_models['methods']})")
    add("--steps", type=int, help=f"training steps of each method (default: {of_models['steps']})")
    add("--seed", type=int, default=1, help="seed of sampling, data order and training (default: %(default)s)")
    add(
        "--device",
        choices=DEVICES,
        help="cuda: GPUs with vLLM; cuda_hf: without; cpu_bf16: smollm2's default where the CPU multiplies in bfloat16 "
        "(default: cpu)",
    )
    return parser


def _print_summary(demo: Demo, failures: list[str], seconds: float) -> None:
    """Print the main results, the checks, and the next commands; the report has everything else."""
    report = json.loads((demo.out / REPORT).read_text())
    following = next_commands(demo, as_shown(Path(sys.executable).with_name("dph")))
    sys.stdout.write(f"\n{results_table(report)}\n")
    if demo.model.has_checks and not failures:
        sys.stdout.write("Self-test passed (fixed thresholds, not significance).\n")
    sys.stdout.write(f"{seconds / 60:.1f} minutes.\n")
    sys.stdout.write(f"Report, with intervals and tests: {as_shown(demo.out / PAGE)}\nNext:\n")
    sys.stdout.writelines(f"  {command}  # {what_for}\n" for command, what_for in following.items())


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


def next_commands(demo: Demo, dph: str) -> dict[str, str]:
    """{command: its purpose} of the commands to run after the demo.

    Args:
        dph: the path of the program dph.
    """
    out = as_shown(demo.out)
    samples, store = f"{out}/data/generate_data/0.jsonl", f"{out}/data/pef.pt"
    found = {f"{dph} inspect {shlex.quote(samples)} {shlex.quote(store)}": "read the base model's samples, and D_pef"}
    if demo.model.name == TINY.name:
        found[f"{dph} study"] = "compare more methods with ten seeds (hours)"
    return found


if __name__ == "__main__":
    sys.exit(main())
