"""The demo with the pretrained model on one GPU, with the times of its phases and its memory.

    python check_pretrained.py REPORT.json [--device cuda_hf] [--steps 200] [--methods grpo,dph_js] [--out FOLDER]

It runs `dph demo --model smollm2`, by default with GRPO and DPH-JS: samples, split, store, training, evaluation. If it
is stopped, the same command continues. It writes the report in either case, with the steps so far. It fails if a step
is missing or not finite, or if rollout and actor are not the same policy. --small has sizes for a CPU.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rl.common.cli import user_errors_exit
from rl.common.signals import exit_on_sigterm
from rl.configuration.methods import methods
from rl.data.training_run import LOGS
from rl.demo.experiment import DEVICES, ignore_variables
from rl.demo.methods import METHODS, method_names
from rl.demo.models import SMOLLM2
from rl.demo.run import Demo
from rl.demo.stages import Stage
from rl.evaluation.analysis.training_log import TrainingLog, read_training_log

DEFAULT_METHODS = "grpo,dph_js"
# The phases of a step and the metrics of their seconds.
PHASES = {
    "rollout": "timing_s/gen",
    "old log-probs": "timing_s/old_log_prob",
    "update": "timing_s/update_actor",
    "weights": "timing_s/update_weights",
    "step": "timing_s/step",
}
MEMORY = "actor/perf/max_memory_allocated_gb"  # GiB, of the actor's process
CORRELATION = "training/rollout_actor_probs_pearson_corr"
# In bf16 a token's probability changes in the third digit. With other weights the correlation is far lower.
LEAST_CORRELATION = 0.99
STEP = "training/global_step"
# The metrics of every step: all of them, on a GPU alone, and with D_pef rows alone. On a CPU the actor computes no
# probabilities of its own before its update (bypass_mode in verl/dph/config/experiment/base/demo.yaml).
OF_TRAINING, ON_A_GPU = ("actor/grad_norm",), (CORRELATION,)
OF_REHEARSAL = ("dph/divergence", "dph/kl_ref_policy", "dph/rows")

# A call on a lent machine ends within ten minutes, and the next one goes on from the last checkpoint.
SAVING = "trainer.save_freq=10"

# With --small: two steps of DPH-JS.
SMALL_METHODS, SMALL_STEPS = ["dph_js"], 2
SMALL_MODEL = replace(SMOLLM2, train=16, in_domain=2, out_of_domain=1)
# After a shorter fine-tuning few problems are solved in 7 of 8 samples: all correct samples are rehearsed.
SMALL_WORDS = {
    "model": ["--steps=10", "--batch-size=8"],
    # Prompts without a correct sample are kept: those with one of 8 can be fewer than a batch.
    "split": ["--threshold=2", "--keep-zero"],
    "store": ["data.sft_coverage=solved", "data.sft_responses_per_prompt=all", "data.sft_top_k=8"],
    "train_dph_js": [
        *("data.train_batch_size=2", "data.sft_batch_size=2"),
        *("actor_rollout_ref.actor.ppo_mini_batch_size=2", "actor_rollout_ref.rollout.n=4"),
    ],
    "evaluate_base": ["evaluate.n=8"],
    "evaluate_dph_js": ["evaluate.n=8"],
}


class SavingDemo(Demo):
    """The demo with SAVING."""

    def stages(self) -> list[Stage]:
        return [replace(stage, command=[*stage.command, *self.words(stage.name)]) for stage in super().stages()]

    def words(self, stage: str) -> list[str]:
        return [SAVING] if stage.startswith("train_") else []


class SmallDemo(SavingDemo):
    """The demo with SMALL_WORDS too."""

    def words(self, stage: str) -> list[str]:
        return [*super().words(stage), *SMALL_WORDS.get(stage, [])]


def measured(log: TrainingLog) -> dict[str, Any]:
    """The number of a run's steps, the median seconds of their phases, and the peak memory, None on a CPU."""
    seconds = {phase: statistics.median(log[name].values()) for phase, name in PHASES.items() if log.get(name)}
    return {
        "steps": len(log.get(PHASES["step"], ())),
        "seconds": seconds,
        "peak_memory_gib": max(log.get(MEMORY, {}).values(), default=None),
    }


def metrics_of(name: str, on_gpu: bool) -> list[str]:
    """The metrics that each step of one of METHODS has."""
    rehearses = any(part.name == "rehearsal" for part in methods()[METHODS[name].method].parts)
    return [*OF_TRAINING, *(ON_A_GPU if on_gpu else ()), *(OF_REHEARSAL if rehearses else ())]


def failures(log: TrainingLog, steps: int, metrics: Sequence[str]) -> list[str]:
    """Sentences about what is wrong in the log of a run.

    Args:
        log: its finite values.
        steps: trained so far.
        metrics: those that each of these steps has.
    """
    expected, found = list(range(1, steps + 1)), []
    for metric in metrics:
        if list(log.get(metric, {})) != expected:
            found.append(f"{metric} is finite in steps {list(log.get(metric, {}))}, not in all of 1 to {steps}")
    if len({*log.get("dph/rows", {}).values()}) > 1:
        found.append(f"the number of D_pef rows changes: {log['dph/rows']}")
    if min(log.get(CORRELATION, {}).values(), default=1) < LEAST_CORRELATION:
        found.append(f"the rollout is not the actor's policy: {CORRELATION} {log[CORRELATION]}")
    return found


def report_of(demo: Demo) -> dict[str, Any]:
    folders = {name: demo.out / "runs" / name / LOGS for name in demo.methods}
    logs = {name: read_training_log(folder) for name, folder in folders.items() if any(folder.glob("*.jsonl"))}
    return {
        "device": demo.device,
        "stage_seconds": demo.pipeline.seconds,
        "measured": {name: measured(log) for name, log in logs.items()},
        "failures": [
            f"{name}: {sentence}"
            for name, log in logs.items()
            for sentence in failures(log, max(log.get(STEP, {}), default=0), metrics_of(name, not demo.on_cpu))
        ],
        "log": logs,
    }


def table(report: dict[str, Any]) -> str:
    """Median seconds of a step's phases and the update's peak memory in GiB: a column per method."""
    runs = report["measured"]
    lines = [["", *(f"{name}, {run['steps']} steps" for name, run in runs.items())]]
    lines += [[f"{phase}, s", *(_cell(run["seconds"].get(phase)) for run in runs.values())] for phase in PHASES]
    lines.append(["update, GiB", *(_cell(run["peak_memory_gib"]) for run in runs.values())])
    return "".join("".join(f"{cell:>20}" for cell in line) + "\n" for line in lines)


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--device", choices=DEVICES, help="default: the demo's")
    parser.add_argument("--steps", type=int, default=200, help="training steps of each method (default: %(default)s)")
    parser.add_argument("--methods", default=DEFAULT_METHODS, help="comma-separated, as of dph demo (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("outputs/gpu"), help="folder of the demo")
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    options = parser.parse_args(arguments)
    exit_on_sigterm()
    ignore_variables()
    folder = options.out.resolve()
    with user_errors_exit(resumes=True):
        if options.small:
            demo: Demo = SmallDemo(folder, SMALL_METHODS, SMALL_STEPS, 1, options.device, SMALL_MODEL)
        else:
            demo = SavingDemo(folder, method_names(options.methods), options.steps, 1, options.device, SMOLLM2)
        try:
            demo.run()
        finally:
            report = report_of(demo)
            options.report.write_text(json.dumps(report, indent=1) + "\n")
            sys.stdout.write(table(report) + "".join(f"FAILED: {sentence}\n" for sentence in report["failures"]))
    return bool(report["failures"])


if __name__ == "__main__":
    sys.exit(main())
