"""Run the whole pipeline on a tiny model, on two cores or a GPU.

    python -m rl.demo.run --out outputs/demo --methods grpo,dph_js

It makes the task and the base model, pre-samples, splits, stores reference log-probs, trains every method with verl,
and evaluates them (OUT/report.json and OUT/report.html). It starts the launch scripts' programs with the settings of
verl/dph/config/experiment/demo.yaml. To resume, run the same command again: it skips finished stages.
"""

import argparse
import json
import os
import shlex
import sys
import time
from pathlib import Path

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.common.signals import exit_on_sigterm
from rl.demo.experiment import (
    DEVICES,
    EVAL_SAMPLES,
    SAMPLES_PER_PROMPT,
    SPLITS,
    THRESHOLD,
    TRAIN_PROMPTS,
    Experiment,
    ignore_variables,
)
from rl.demo.methods import METHODS, method_names
from rl.demo.stages import Stage

SUMMARY = (
    "A base model of 250 thousand parameters writes SQL in five styles for questions about two databases (in domain) "
    "and two that training never sees (out of domain). Half of the questions are ambiguous, in fine-tuning, training "
    "and tests alike: “figures” means one column in 70 % of them and another in 30 %, and nothing says which. The "
    "model was pre-sampled {k} times on {prompts} prompts; those with at least {threshold} correct responses, answered "
    "correctly once more, are rehearsed (D_pef), the others explored (D_exp). Every method then trained {steps} steps "
    "of 16 prompts x 16 samples with verl, on rewards from executed queries."
)
CAVEATS = (
    "One seed and one base model: differences of a few points between methods change with the seed (docs/study).",
    "A gain over GRPO may come from clip-higher and from training on hard prompts alone: compare with dapo_exp "
    "(make demo METHODS=grpo,dapo_exp,dph_js), which differs from DPH-JS only by the divergence.",
)


class Demo(Experiment):
    """The demo in one folder.

    Args:
        out: the folder, absolute.
        methods: names of METHODS.
        steps: training steps per method.
        seed: the seed of sampling, data order and training.
        device: one of DEVICES.
    """

    def __init__(self, out: Path, methods: list[str], steps: int, seed: int, device: str = "cpu"):
        # Two programs keep two cores busy, but only one can use a GPU.
        super().__init__(out, steps, seed, device=device, at_once=2 if device == "cpu" else 1)
        self.methods = methods

    def stages(self) -> list[Stage]:
        """The stages; the first that can start does so. The base model's evaluation fills the gap at the end."""
        trainings = [self.train(name, METHODS[name], self.own_draw) for name in self.methods]
        evaluations = [self.evaluate(name, METHODS[name].label) for name in self.methods]
        return [*self.prepare(self.methods), *trainings, *evaluations, self.evaluate_base()]

    def command(self, methods: list[str]) -> str:
        """The arguments of `dph` that run the demo with these methods in this folder."""
        options = {"--out": os.path.relpath(self.out), "--methods": ",".join(methods), "--steps": str(self.steps)}
        options |= {"--seed": str(self.seed), "--device": self.device}
        return f"demo {shlex.join(word for option in options.items() for word in option)}"

    def run(self) -> list[str]:
        """Run all stages, write the report, and return one sentence per failed check."""
        from rl.evaluation.analysis.claims import failed_checks

        self.run_stages(self.stages())
        sys.stderr.write("Comparing the methods\n")
        return failed_checks(self._report())

    def _report(self) -> dict:
        from rl.evaluation.report.write import write_report

        etas = {f"eta of {METHODS[name].label}": METHODS[name].eta for name in self.methods if METHODS[name].family}
        spec = self.spec(
            {name: self.entry(METHODS[name], name) for name in self.methods},
            title="DPH-RL demo",
            summary=SUMMARY.format(k=SAMPLES_PER_PROMPT, prompts=TRAIN_PROMPTS, threshold=THRESHOLD, steps=self.steps),
            commands=[f"dph {self.command(self.methods)}"],
            caveats=list(CAVEATS),
            settings=self.stated_settings()
            | {"device": self.device, "seed": self.seed, "trainer.total_training_steps": self.steps}
            | etas,
            seconds={name: round(seconds, 1) for name, seconds in self.pipeline.seconds.items()},
        )
        spec.write(self.out / "spec.json")
        return write_report(spec, self.out)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line. The exit code is 1 if a check of claims.failed_checks fails, 2 after a user error."""
    options = parser().parse_args(arguments)
    exit_on_sigterm()
    ignore_variables()
    with user_errors_exit(resumes=True):
        methods = method_names(options.methods)
        if options.steps < 1:
            raise UserError(f"--steps is {options.steps}; it must be at least 1.")
        started = time.monotonic()
        demo = Demo(options.out.resolve(), methods, options.steps, options.seed, options.device)
        failures = demo.run()
    _print_summary(demo, failures, time.monotonic() - started)
    for failure in failures:
        sys.stderr.write(f"Check failed: {failure}\n")
    return 1 if failures else 0


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rl.demo.run", description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--out", type=Path, default=Path("outputs/demo"), help="output folder (default: %(default)s)")
    add("--methods", default="grpo,dph_js", help=f"comma-separated, of {', '.join(METHODS)} (default: %(default)s)")
    add("--steps", type=int, default=60, help="training steps of each method (default: %(default)s)")
    add("--seed", type=int, default=1, help="seed of sampling, data order and training (default: %(default)s)")
    add(
        "--device", choices=DEVICES, default="cpu", help="cuda: GPUs with vLLM; cuda_hf: without (default: %(default)s)"
    )
    return parser


def _print_summary(demo: Demo, failures: list[str], seconds: float) -> None:
    """Print the report's tables and comparisons, the checks, and the next commands."""
    from rl.evaluation.table import as_text
    from rl.evaluation.tables import comparisons_table

    report = json.loads((demo.out / "report.json").read_text())
    memory = f", at most {demo.pipeline.peak_memory / 1e9:.1f} GB of memory" if demo.pipeline.peak_memory else ""
    following = next_commands(demo, os.path.relpath(Path(sys.executable).with_name("dph")))
    sys.stdout.write(f"\n{results_tables(report)}\n{as_text(comparisons_table(report))}\n")
    sys.stdout.write(("" if failures else checks_passed(report)) + f"{seconds / 60:.1f} minutes{memory}.\n")
    sys.stdout.write(f"Report: {os.path.relpath(demo.out / 'report.html')}\nNext:\n")
    sys.stdout.writelines(f"  {command}  # {what_for}\n" for command, what_for in following.items())


def results_tables(report: dict) -> str:
    """A table per split, for all questions and for each group that the report has.

    Args:
        report: the content of report.json.
    """
    from rl.evaluation.measures import TERMINAL, metrics_for
    from rl.evaluation.table import as_text
    from rl.evaluation.tables import counted, of_groups, split_name, values_table
    from rl.metrics.pass_at_k import SOLVED_IN

    tables, columns = [], metrics_for(TERMINAL, EVAL_SAMPLES, SOLVED_IN)
    for split in SPLITS:
        of_split = {method: report[method][split] for method in report["_labels"]}
        for words, found in {"": of_split, **of_groups(of_split)}.items():
            caption = counted(split_name(split), found, EVAL_SAMPLES, f"{words} " if words else "")
            tables.append(as_text(values_table(found, columns, report["_labels"], caption)))
    return "\n".join(tables)


def checks_passed(report: dict) -> str:
    """A sentence on the checks of claims.failed_checks, if none failed."""
    labels = report["_labels"]
    styles = [claim for claim in report["_claims"] if claim["unit"] == "nats" and claim["method"] in ("grpo", "dph_js")]
    passed = [f"{labels[claim['method']]} {claim['predicate']}" for claim in styles]
    if "grpo" in report:
        passed.insert(0, f"{labels['grpo']} has a lower Pass@{report['base']['in_domain']['n']} than the base")
    return f"Checks passed: {', '.join(passed)}.\n"


def next_commands(demo: Demo, dph: str) -> dict[str, str]:
    """{command: its purpose} of the commands to run after the demo.

    Args:
        dph: the path of the program dph.
    """
    out = os.path.relpath(demo.out)
    samples, store = f"{out}/data/generate_data/0.jsonl", f"{out}/data/pef.pt"
    found = {f"{dph} inspect {shlex.quote(samples)} {shlex.quote(store)}": "read the base model's samples, and D_pef"}
    if more := [name for name in ("dapo_exp", "dph_f") if name not in demo.methods]:
        found[f"{dph} {demo.command([*demo.methods, *more])}"] = "train these too"
    return found | {f"{dph} study": "compare more methods with ten seeds (hours)"}


if __name__ == "__main__":
    sys.exit(main())
