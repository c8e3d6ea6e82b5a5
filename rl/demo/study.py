"""Train every method on the demo's task with several seeds and compare them.

    python -m rl.demo.study --out outputs/study --seeds 1,2,3

One base model, one D_pef and one set of test questions; a training run for each method and seed, two at a time. Writes
OUT/study.json, study.md and study.svg (study_report.py) and one report.html for each seed. Resumable run by run.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.demo.experiment import ETA, Experiment, Method, sample_files
from rl.demo.scorer_process import ScorerServer

METHODS = {
    "grpo": Method("GRPO", "grpo.sh"),
    "dapo": Method("DAPO", "dapo.sh"),
    "dapo_exp": Method("DAPO on D_exp, eta 0", "js_kl.sh", ("0",), "DPH-JS"),
    "rkl": Method("RKL, eta 0.1", "reverse_kl.sh", ("0.1",), "RKL"),
    "dph_f": Method(f"DPH-F, eta {ETA}", "forward_kl.sh", (str(ETA),), "DPH-F"),
    "dph_js": Method(f"DPH-JS generator, eta {ETA}", "js_kl.sh", (str(ETA),), "DPH-JS"),
    "dph_js_def": Method(f"DPH-JS definition, eta {ETA}", "js_definition.sh", (str(ETA),), "DPH-JS definition"),
    "dph_alpha": Method(f"alpha 0.2, eta {ETA}", "alpha.sh", (str(ETA), "0.2"), "alpha 0.2"),
}


class Study(Experiment):
    """The study in one folder.

    Args:
        out: the folder, absolute.
        methods: names of METHODS.
        seeds: of the training runs.
        steps: training steps of each run.
        at_once: runs at a time.
    """

    def __init__(self, out: Path, methods: list[str], seeds: list[int], steps: int, at_once: int):
        super().__init__(out, steps, seed=1)
        self.methods, self.seeds, self.at_once = methods, seeds, at_once

    def run(self) -> Path:
        """All stages, then the comparison. Returns the path of its table."""
        from rl.demo.study_report import write_study

        self.make_task_and_model()
        with ScorerServer(self.out, self.task / "databases") as address:
            self.pipeline.environment["DPH_SCORER"] = address
            self.prepare_data()
            base = self.evaluate("evaluate_base", "Evaluation of the base", {"base": self.model}, ["model"], again=True)
            self.pipeline.run(base)
            # Seed by seed, so that what a run of an hour has is every method once.
            chains = [self._train_and_evaluate(method, seed) for seed in self.seeds for method in self.methods]
            self.pipeline.run_chains(chains, at_once=self.at_once)
        return write_study(self.out, {name: METHODS[name].label for name in self.methods}, self._specs(), self._facts())

    def _train_and_evaluate(self, method: str, seed: int) -> list:
        name, of_seed = run_name(method, seed), f", seed {seed}"
        entry = METHODS[method]
        labelled = Method(entry.label + of_seed, entry.script, entry.arguments)
        models, needs = {name: self.checkpoint(name)}, [f"train_{name}"]
        return [
            self.train(name, labelled, seed, threads=1 if self.at_once > 1 else 2),
            self.evaluate(f"evaluate_{name}", f"Evaluation of {labelled.label}", models, needs, replicas=1),
        ]

    def _specs(self) -> dict[int, dict]:
        """Each seed's specification of a report (evaluation/spec.py)."""
        return {
            seed: {
                "title": f"DPH-RL study, seed {seed}",
                "summary": f"One of the seeds of the study: {self.steps} steps of every method on the tiny task.",
                "methods": {name: {"splits": sample_files(name)} for name in ("base", "base_again")}
                | {
                    method: METHODS[method].described() | {"splits": sample_files(run_name(method, seed))}
                    for method in self.methods
                },
            }
            for seed in self.seeds
        }

    def _facts(self) -> dict:
        seconds = self.pipeline.seconds
        return {"steps": self.steps, "seeds": self.seeds, "at_once": self.at_once, "seconds_of_stages": seconds}


def run_name(method: str, seed: int) -> str:
    return f"{method}_s{seed}"


def main(arguments: list[str] | None = None) -> int:
    """The command line; exit code 2 for a user error."""
    options = parser().parse_args(arguments)
    # Ended from outside, it ends what it started, as after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    started = time.monotonic()
    with user_errors_exit():
        methods = options.methods.split(",")
        if unknown := [name for name in methods if name not in METHODS]:
            raise UserError(f"--methods has {unknown}, of which there is no method: give some of {', '.join(METHODS)}.")
        seeds = _seeds(options.seeds)
        for name in ("steps", "jobs"):
            if getattr(options, name) < 1:
                raise UserError(f"--{name} {getattr(options, name)}: give at least 1.")
        study = Study(options.out.resolve(), list(dict.fromkeys(methods)), seeds, options.steps, options.jobs)
        table = study.run()
    memory = f", at most {study.pipeline.peak_memory / 1e9:.1f} GB of memory" if study.pipeline.peak_memory else ""
    sys.stdout.write(f"{table.read_text()}\n{(time.monotonic() - started) / 60:.1f} minutes{memory}.\n")
    sys.stdout.writelines(f"{os.path.relpath(path)}\n" for path in sorted(table.parent.glob("study*.*")))
    return 0


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rl.demo.study", description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--out", type=Path, default=Path("outputs/study"), help="folder of everything (default: %(default)s)")
    add("--methods", default=",".join(METHODS), help="comma-separated (default: %(default)s)")
    add("--seeds", default="1,2,3", help="of the training runs, comma-separated (default: %(default)s)")
    add("--steps", type=int, default=80, help="training steps of each run (default: %(default)s)")
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
