"""The demo with the pretrained model and vLLM on one GPU, stage by stage, with the times of its phases and its memory.

    python check_pretrained.py OUT --until STAGE [--device cuda] [--stop-at STEP] [--small]

STAGE is a stage of the demo, which is called with MaxRL and DPH-JS, 20 steps each, or the last one: ten steps of MaxRL
with the rollout hf in vLLM's place. What is done is skipped, and what was stopped continues. --stop-at kills it like
`kill -9` once the training run of STAGE has logged that step. OUT/reports gets pretrained.json after every call, and
the demo's report. It fails if a step is missing or not finite, or if rollout and actor are not the same policy.

--small runs the same stages on a CPU with the demo's tiny model, a few prompts and a few steps.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from rl.common.cli import user_errors_exit
from rl.common.signals import exit_on_sigterm
from rl.data.training_run import LOGS
from rl.demo.experiment import DEVICES, ignore_variables
from rl.demo.methods import METHODS
from rl.demo.models import SMOLLM2, TINY
from rl.demo.run import Demo
from rl.demo.stages import Stage
from rl.evaluation.analysis.training_log import TrainingLog, read_training_log

# The method that also runs with the rollout hf, and the one that is stopped and resumed.
RL, REHEARSAL = "maxrl", "dph_js"
HF = f"{RL}_hf"
REPORTED = "evaluate_base"  # with all evaluations, and the report
STEPS, HF_STEPS = 20, 10
# A run that is stopped after step 7 goes on from the checkpoint of step 5.
WORDS = ["trainer.save_freq=5"]
# The phases of a step and the metrics of their seconds.
PHASES = {
    "rollout": "timing_s/gen",
    "old log-probs": "timing_s/old_log_prob",
    "update": "timing_s/update_actor",
    "weights": "timing_s/update_weights",
    "step": "timing_s/step",
}
MEMORY = "actor/perf/max_memory_allocated_gb"  # GiB, of the actor's process
REWARD = "critic/score/mean"
CORRELATION = "training/rollout_actor_probs_pearson_corr"
# In bf16 a token's probability changes in the third digit. With other weights the correlation is far lower.
LEAST_CORRELATION = 0.99
STEP = "training/global_step"
# The metrics of every step: all of them, and with D_pef rows. On a GPU CORRELATION is one; on a CPU the actor has no
# probabilities of its own before its update (bypass_mode in verl/dph/config/experiment/base/demo.yaml).
OF_TRAINING, OF_REHEARSAL = ("actor/grad_norm",), ("dph/divergence", "dph/rows")
# What a resumed run repeats, to be compared.
REPEATED = (REWARD, "actor/grad_norm", "dph/divergence")

# With --small: the demo's tiny model and its SQL task, seven steps, and one of hf.
SMALL_STEPS = 7
SMALL_MODEL = replace(TINY, train=40, in_domain=2, out_of_domain=1)
SMALL_WORDS = {
    # About one sample in 15 is correct then. A prompt with one is rehearsed, and one without any is explored.
    "model": ["--steps=300"],
    "split": ["--threshold=1", "--keep-zero"],
    "store": ["data.sft_coverage=solved", "data.sft_responses_per_prompt=all"],
    "train": [
        *("data.train_batch_size=2", "actor_rollout_ref.actor.ppo_mini_batch_size=2", "actor_rollout_ref.rollout.n=4"),
        "trainer.save_freq=4",
    ],
    f"train_{REHEARSAL}": ["data.sft_batch_size=2"],
    "evaluate": ["evaluate.n=8"],
}


class Check(Demo):
    """A stage of the demo with those that it needs: a run that fails does not stop the others."""

    def __init__(self, out: Path, device: str, small: bool, until: str):
        steps, model = (SMALL_STEPS, SMALL_MODEL) if small else (STEPS, SMOLLM2)
        super().__init__(out, [RL, REHEARSAL], steps, 1, device=device, model=model)
        self.small, self.until = small, until

    def stages(self) -> list[Stage]:
        hf = self.train(HF, METHODS[RL], self.own_draw, [1 if self.small else HF_STEPS])
        of_hf = {"device=cuda": "device=cuda_hf"}
        hf = replace(hf, command=[of_hf.get(word, word) for word in hf.command])
        stages = [replace(stage, command=[*stage.command, *self._words(stage)]) for stage in super().stages()]
        stages.append(replace(hf, command=[*hf.command, *self._words(hf)]))
        if self.small:  # its store holds samples of the pre-sampling, and no others are drawn
            pef = [self.data / "pef.pt"]
            stages = [replace(stage, outputs=pef) if stage.name == "store" else stage for stage in stages]
        if self.until == REPORTED:
            return stages[:-1]
        by_name = {stage.name: stage for stage in stages}

        def needed(name: str) -> set[str]:
            return {name}.union(*map(needed, by_name[name].needs))

        return [stage for stage in stages if stage.name in needed(self.until)]

    def _words(self, stage: Stage) -> list[str]:
        kind = stage.name.partition("_")[0]
        small = [word for name in {kind: None, stage.name: None} for word in SMALL_WORDS.get(name, [])]
        return [*(WORDS if kind == "train" else []), *(small if self.small else [])]


def measured(log: TrainingLog) -> dict[str, Any]:
    """The number of a run's steps, the mean reward of the first HF_STEPS, the median seconds of their phases, and the
    peak memory, None on a CPU."""
    rewards = [*log.get(REWARD, {}).values()][:HF_STEPS]
    seconds = {phase: statistics.median(log[name].values()) for phase, name in PHASES.items() if log.get(name)}
    return {
        "steps": len(log.get(PHASES["step"], ())),
        "reward": statistics.mean(rewards) if rewards else None,
        "seconds": seconds,
        "peak_memory_gib": max(log.get(MEMORY, {}).values(), default=None),
    }


def repeated(folder: Path) -> dict[str, dict[int, list[float]]]:
    """{metric: {step: its value in each start}} of the steps that several starts of a run have logged."""
    parts = [read_training_log(part) for part in sorted(folder.glob("*.jsonl"))]
    found = {name: [part.get(name, {}) for part in parts] for name in REPEATED}
    steps = sorted(set.intersection(*map(set, found[REWARD]))) if len(parts) > 1 else []
    return {name: {step: [part[step] for part in of] for step in steps} for name, of in found.items() if all(of)}


def failures(name: str, log: TrainingLog, on_gpu: bool) -> list[str]:
    """Sentences about what is wrong in the finite values of a run's log so far."""
    expected, found = list(range(1, 1 + int(max(log.get(STEP, {}), default=0)))), []
    for metric in (*OF_TRAINING, *(OF_REHEARSAL if name == REHEARSAL else ()), *((CORRELATION,) if on_gpu else ())):
        if list(log.get(metric, {})) != expected:
            found.append(f"{name}: {metric} is finite in steps {list(log.get(metric, {}))}, not in all {len(expected)}")
    if len({*log.get("dph/rows", {}).values()}) > 1:
        found.append(f"{name}: the number of D_pef rows changes: {log['dph/rows']}")
    if min(log.get(CORRELATION, {}).values(), default=1) < LEAST_CORRELATION:
        found.append(f"{name}: the rollout is not the actor's policy: {CORRELATION} {log[CORRELATION]}")
    return found


def report_of(demo: Check) -> dict[str, Any]:
    folders = {name: demo.out / "runs" / name / LOGS for name in (RL, REHEARSAL, HF)}
    folders = {name: folder for name, folder in folders.items() if any(folder.glob("*.jsonl"))}
    logs = {name: read_training_log(folder) for name, folder in folders.items()}
    return {
        "device": demo.device,
        "stage_seconds": demo.pipeline.seconds,
        "measured": {name: measured(log) for name, log in logs.items()},
        "repeated": {name: repeated(folder) for name, folder in folders.items()},
        "failures": [found for name, log in logs.items() for found in failures(name, log, not demo.on_cpu)],
        "log": logs,
    }


def kill_at(step: int, run: Path) -> None:
    """End this process, and with it the run's, without a word once the run has logged a step."""
    logs = run / LOGS
    while not any(logs.glob("*.jsonl")) or max(read_training_log(logs).get(STEP, {}), default=0) < step:
        time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=Path, help="folder of the demo")
    parser.add_argument("--until", required=True, metavar="STAGE", help=f"task, ..., {REPORTED}, train_{HF}")
    parser.add_argument("--device", choices=DEVICES, default="cuda", help="default: %(default)s")
    parser.add_argument("--stop-at", type=int, metavar="STEP", help="kill the run of STAGE after this step")
    parser.add_argument("--small", action="store_true", help="the tiny model, in sizes for a CPU")
    options = parser.parse_args(arguments)
    exit_on_sigterm()
    ignore_variables()
    with user_errors_exit(resumes=True):
        demo = Check(options.out.resolve(), "cpu" if options.small else options.device, options.small, options.until)
        reports = demo.out / "reports"
        reports.mkdir(exist_ok=True)
        if options.stop_at:
            run = demo.out / "runs" / options.until.removeprefix("train_")
            threading.Thread(target=kill_at, args=(options.stop_at, run), daemon=True).start()
        try:
            if options.until == REPORTED:
                demo.run()
                for name in ("report.json", "report.html"):
                    shutil.copy(demo.out / name, reports)
            else:
                demo.run_stages(demo.stages())
        finally:
            report = report_of(demo)
            (reports / "pretrained.json").write_text(json.dumps(report, indent=1) + "\n")
            sys.stdout.write(json.dumps(report["measured"], indent=1) + "\n")
            sys.stdout.write("".join(f"FAILED: {sentence}\n" for sentence in report["failures"]))
    return bool(report["failures"])


if __name__ == "__main__":
    sys.exit(main())
