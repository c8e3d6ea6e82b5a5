"""Demo-sized DPH-JS on one device: samples, split, store, training, a checkpoint and a resumed run.

    python check_training.py REPORT.json [--device cuda_hf] [--steps 10] [--out FOLDER] [--small]

It runs the launch scripts' programs with the demo's settings (verl/dph/config/experiment/demo.yaml): verl's trainer,
FSDP2, TransferQueue, the scorer. It fails if a program fails, a step is missing or was done twice, or rollout and actor
are not the same policy.
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

from rl.cluster.scorer import temporary_scorer
from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.common.processes import end_process_tree
from rl.common.signals import exit_on_sigterm
from rl.demo.base_model import SftSettings, make_model
from rl.demo.experiment import DEVICES, check_device, scorer_config
from rl.demo.methods import METHODS
from rl.demo.models import TINY
from rl.demo.task import TaskSettings, make_task
from rl.evaluation.analysis.training_log import TrainingLog, read_training_log

RUN = "dph_js"
# The actor computes old log-probs, so that the rollout's can be compared with them.
OVERRIDES = ["algorithm.rollout_correction.bypass_mode=False", "actor_rollout_ref.actor.optim.weight_decay=0.0"]
# The report has the means of these over the run, in addition to the seconds of a step.
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
    "actor/perf/max_memory_allocated_gb",
)
CORRELATION = "training/rollout_actor_probs_pearson_corr"
# In bf16 a token's probability changes in the third digit. With other weights the correlation is far lower.
LEAST_CORRELATION = 0.99


@dataclass(frozen=True)
class Size:
    """The demo's numbers. `overrides` are for training, which visits `pef_rows` D_pef rows per step."""

    task: TaskSettings = field(default_factory=TaskSettings)
    sft: SftSettings = field(default_factory=SftSettings)
    samples: int = 8
    threshold: int = 6
    pef_rows: int = 32
    overrides: tuple[str, ...] = ()


FULL = Size()
SMALL = Size(
    TaskSettings(train=40, eval=6, sft=3000),
    SftSettings(steps=300),
    samples=4,
    threshold=1,
    pef_rows=4,
    overrides=(
        *("data.train_batch_size=4", "data.sft_batch_size=4"),
        *("actor_rollout_ref.actor.ppo_mini_batch_size=2", "actor_rollout_ref.rollout.n=4"),
    ),
)


class Check:
    """The experiment's programs, one after the other.

    Args:
        folder: the folder for all that they write.
        steps: the training steps before the run is resumed, and again after that.
    """

    def __init__(self, folder: Path, device: str, steps: int, size: Size):
        check_device(device)
        self.folder, self.device, self.size, self.steps = folder, device, size, steps
        self.run_folder = folder / "runs" / RUN
        self.environment = {"SETTINGS": TINY.experiment, "DEMO_DIR": str(folder), "OMP_NUM_THREADS": "1"}
        self.seconds: dict[str, float] = {}

    def run(self) -> None:
        """Run all stages; the last one resumes from the checkpoint of the one before."""
        task, data = self.folder / "task", self.folder / "data"
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        start = time.monotonic()
        make_task(task, self.size.task)
        make_model(task, self.folder / "model", self.size.sft)
        self._took("task_and_model", start)
        with temporary_scorer(scorer_config(), task / "databases", self.folder / "logs" / "scorer.log") as address:
            self.environment["DPH_SCORER"] = address
            self._launch("presample", "offline_sampling", f"presample.n={self.size.samples}")
            self._program(
                *("split", "rl.cli", "split", f"--samples={data / 'generate_data' / '0.jsonl'}"),
                *(f"--data={task / 'train.parquet'}", f"--out={data}"),
                *(f"--threshold={self.size.threshold}", f"--n={self.size.samples}"),
            )
            self._launch("store", "get_correct_data_tensor")
            for name, steps in (("train", self.steps), ("resume", 2 * self.steps)):
                lengths = (f"trainer.total_training_steps={steps}", f"trainer.save_freq={self.steps}")
                words = (*METHODS["dph_js"].words, *OVERRIDES, *self.size.overrides, *lengths)
                self._launch(name, METHODS["dph_js"].method, RUN, *words)

    def _launch(self, name: str, method: str, *words: str) -> None:
        self._program(name, "rl.launch", method, *words, f"device={self.device}", "trainer.n_gpus_per_node=1")

    def _program(self, name: str, module: str, *words: str) -> None:
        """Run a program.

        Raises:
            UserError: the program failed; the sentence ends with the end of its log.
        """
        start, path = time.monotonic(), self.folder / "logs" / f"{name}.log"
        with open(path, "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                env=os.environ | self.environment,
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
        """The problems that the runs' log shows."""
        steps = list(range(1, 2 * self.steps + 1))
        found = []
        for metric in ("actor/grad_norm", "dph/divergence", "dph/kl_ref_policy", CORRELATION):
            if list(log.get(metric, {})) != steps:
                found.append(f"{metric} is finite in steps {list(log.get(metric, {}))}, not in all of 1 to {steps[-1]}")
        if set(log.get("dph/rows", {}).values()) != {float(self.size.pef_rows)}:
            found.append(f"D_pef rows: {log.get('dph/rows')}, not {self.size.pef_rows} in every step")
        if min(log.get(CORRELATION, {}).values(), default=1) < LEAST_CORRELATION:
            found.append(f"the rollout is not the actor's policy: {CORRELATION} {log[CORRELATION]}")
        lines = sum(path.read_bytes().count(b"\n") for path in (self.run_folder / "metrics").glob("*.jsonl"))
        if lines != len(steps):
            found.append(f"{lines} steps were logged, not {len(steps)}: the second run did not resume the first's last")
        return found

    def report(self, log: TrainingLog) -> dict:
        means = {name: statistics.mean(log[name].values()) for name in REPORTED if log.get(name)}
        return {"device": self.device, "steps": 2 * self.steps, "seconds": self.seconds, "means": means}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--device", choices=DEVICES, default="cuda_hf", help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=10, help="steps before and after resuming (default: %(default)s)")
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
