"""Demo-sized DPH-JS on one device: samples, split, store, training, a checkpoint and its resumption.

    python check_training.py REPORT.json [--device cuda_hf] [--steps 10] [--out FOLDER] [--small]

The programs are those of the launch scripts, with the demo's settings: verl's trainer, FSDP2, TransferQueue, the
scorer. Fails if a program does, if a step is missing or was done twice, or if rollout and actor are not one policy.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.common.processes import end_process_tree
from rl.common.signals import exit_on_sigterm
from rl.demo.base_model import ModelSettings, make_model
from rl.demo.experiment import DEVICES, SCRIPTS, SETTINGS, Experiment
from rl.demo.methods import METHODS
from rl.demo.scorer_process import REPOSITORY, scorer_server
from rl.demo.sft import SftSettings
from rl.demo.task import TaskSettings, make_task
from rl.evaluation.analysis.training_log import TrainingLog, read_training_log

RUN = "dph_js"
# Old log-probs are the actor's own, so that the rollout's can be compared with them.
OVERRIDES = ["algorithm.rollout_correction.bypass_mode=False", "actor_rollout_ref.actor.optim.weight_decay=0.0"]
# Means over the run in the report, beside the seconds of a step.
REPORTED = (
    "critic/score/mean",
    "actor/grad_norm",
    "dph/divergence",
    "dph/kl_ref_policy",
    "training/rollout_probs_diff_mean",
    "training/rollout_probs_diff_max",
    "training/rollout_actor_probs_pearson_corr",
    "timing_s/gen",
    "timing_s/old_log_prob",
    "timing_s/update_actor",
    "timing_s/update_weights",
    "perf/max_memory_allocated_gb",
)
CORRELATION = "training/rollout_actor_probs_pearson_corr"
# In bf16 a token's probability moves in the third digit; with other weights the correlation falls far below.
LEAST_CORRELATION = 0.99


@dataclass(frozen=True)
class Size:
    """The demo's numbers; `settings` are the variables of llama_sql that differ from the demo's."""

    task: TaskSettings = field(default_factory=TaskSettings)
    sft: SftSettings = field(default_factory=SftSettings)
    samples: int = 8
    threshold: int = 6
    settings: dict[str, str] = field(default_factory=dict)


FULL = Size()
SMALL = Size(
    TaskSettings(train=40, eval=6, sft=3000),
    SftSettings(steps=300),
    samples=4,
    threshold=1,
    settings={"TRAIN_BATCH_SIZE": "4", "MINI_BATCH_SIZE": "2", "ROLLOUT_N": "4", "SFT_BATCH_SIZE": "4"},
)


class Check:
    """The experiment's programs, one after the other.

    Args:
        folder: of everything that they write.
        steps: training steps before the checkpoint is resumed, and after.
    """

    def __init__(self, folder: Path, device: str, steps: int, size: Size):
        self.experiment, self.size, self.steps = Experiment(folder, steps, seed=1, device=device), size, steps
        self.run_folder = folder / "runs" / RUN
        self.settings = self.experiment.settings | size.settings
        self.settings |= {"SAMPLES_PER_PROMPT": str(size.samples), "GPUS_PER_NODE": "1", "SAVE_FREQ": str(steps)}
        self.seconds: dict[str, float] = {}

    def run(self) -> None:
        """All stages; the last one resumes from the checkpoint of the one before."""
        task, model, data = self.experiment.task, self.experiment.model, self.experiment.data
        start = time.monotonic()
        make_task(task, self.size.task)
        make_model(task, model, ModelSettings(sft=self.size.sft))
        self._took("task_and_model", start)
        with scorer_server(self.experiment.out, task / "databases") as address:
            self.settings["DPH_SCORER"] = address
            self._program("presample", "bash", str(SCRIPTS / "offline_sampling.sh"), "sampling")
            self._program(
                "split",
                *(sys.executable, str(REPOSITORY / "data" / "sql" / "process_data" / "exact_correct_id.py")),
                *("--samples", str(data / "generate_data" / "0.jsonl"), "--data", str(task / "train.parquet")),
                *("--out", str(data), "--threshold", str(self.size.threshold), "--n", str(self.size.samples)),
            )
            self._program("store", "bash", str(SCRIPTS / "get_correct_data_tensor.sh"))
            for name, steps in (("train", self.steps), ("resume", 2 * self.steps)):
                self.settings["TOTAL_STEPS"] = str(steps)
                self._program(name, "bash", str(SCRIPTS / "js_kl.sh"), RUN, *METHODS["dph_js"].arguments, *OVERRIDES)

    def _program(self, name: str, *command: str) -> None:
        """Run a program of the repository.

        Raises:
            UserError: it failed; with the end of its log.
        """
        start, path = time.monotonic(), self.experiment.pipeline.out / "logs" / f"{name}.log"
        with open(path, "wb") as log:
            process = subprocess.Popen(
                command,
                env=os.environ | self.experiment.pipeline.environment | self.settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait()
            finally:
                end_process_tree(process)
        if code:
            raise UserError(f"{name} ended with exit code {code}: {path.read_text(errors='replace')[-4000:]}")
        self._took(name, start)

    def _took(self, name: str, start: float) -> None:
        self.seconds[name] = round(time.monotonic() - start, 1)
        sys.stdout.write(f"{name}: {self.seconds[name]} s\n")
        sys.stdout.flush()

    def failures(self, log: TrainingLog) -> list[str]:
        """What the runs' log says against them."""
        settings, steps = SETTINGS | self.size.settings, list(range(1, 2 * self.steps + 1))
        found = []
        for metric in ("actor/grad_norm", "dph/divergence", "dph/kl_ref_policy", CORRELATION):
            if list(log.get(metric, {})) != steps:
                found.append(f"{metric} is finite in steps {list(log.get(metric, {}))}, not in all of 1 to {steps[-1]}")
        if set(log.get("dph/rows", {}).values()) != {float(settings["SFT_BATCH_SIZE"])}:
            found.append(f"D_pef rows: {log.get('dph/rows')}, not {settings['SFT_BATCH_SIZE']} in every step")
        if min(log.get(CORRELATION, {}).values(), default=1) < LEAST_CORRELATION:
            found.append(f"the rollout is not the actor's policy: {CORRELATION} {log[CORRELATION]}")
        lines = sum(path.read_bytes().count(b"\n") for path in (self.run_folder / "metrics").glob("*.jsonl"))
        if lines != len(steps):
            found.append(f"{lines} steps were logged, not {len(steps)}: the second run did not resume the first's last")
        return found

    def report(self, log: TrainingLog) -> dict:
        means = {name: statistics.mean(log[name].values()) for name in REPORTED if log.get(name)}
        return {"device": self.experiment.device, "steps": 2 * self.steps, "seconds": self.seconds, "means": means}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--device", choices=DEVICES, default="cuda_hf", help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=10, help="before the checkpoint, and after (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, default=Path("outputs/gpu"), help="folder of the run (default: %(default)s)"
    )
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    options = parser.parse_args(arguments)
    exit_on_sigterm()
    with user_errors_exit():
        check = Check(options.out.resolve(), options.device, options.steps, SMALL if options.small else FULL)
        check.run()
        log = read_training_log(check.run_folder / "metrics")
    report = check.report(log) | {"failures": check.failures(log)}
    options.report.write_text(json.dumps(report | {"log": log}, indent=1) + "\n")
    sys.stdout.write("".join(f"{name}: {value:.4g}\n" for name, value in report["means"].items()))
    sys.stdout.write("".join(f"FAILED: {sentence}\n" for sentence in report["failures"]) or "All checks passed.\n")
    return bool(report["failures"])


if __name__ == "__main__":
    sys.exit(main())
