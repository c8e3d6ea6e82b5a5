"""The state of a training run, read from its folder: its metrics by step, and how far it is."""

import os
from dataclasses import dataclass
from pathlib import Path

from rl.common.errors import UserError
from rl.configuration.names import MAIN
from rl.data.training_run import CONSOLE, LOGS, NEWEST, RECORD, read_record, step_of
from rl.evaluation.analysis.training_log import TrainingLog, read_training_log


@dataclass(frozen=True)
class RunFolder:
    """A training run as its folder shows it now.

    Attributes:
        log: {metric: {step: value}}; empty before the first step.
        step: the last one that was logged; 0 is the validation of the initial policy; None if nothing was logged yet.
        total_steps: the whole run's; None if the folder has no record.
    """

    folder: Path
    log: TrainingLog
    step: int | None
    total_steps: int | None

    @property
    def progress(self) -> str:
        return f"step {self.step or 0}" + ("" if self.total_steps is None else f" of {self.total_steps}")

    @property
    def has_ended(self) -> bool:
        return self.step is not None and self.total_steps is not None and self.step >= self.total_steps


def is_run(folder: Path) -> bool:
    """Whether the folder has what a run writes; during its set-up it has the log of the program alone."""
    if any((folder / name).exists() for name in (LOGS, NEWEST, RECORD)):
        return True
    try:
        with open(folder / CONSOLE, errors="replace") as log:
            return f"{MAIN.replace('.', '/')}.py" in log.readline()  # other programs write such a log too
    except OSError:
        return False


def read_run(folder: Path) -> RunFolder:
    """
    Raises:
        UserError: there is no run, its log is damaged, or it logs no metrics to files.
    """
    if not os.path.isdir(folder):  # Path.is_dir raises where the user may not look
        raise UserError(f"There is no run {folder}: give a run's folder, such as outputs/llama-sql/my_run.")
    if not is_run(folder):
        is_checkpoint = step_of(folder.resolve()) is not None
        hint = "the folder above it" if is_checkpoint else "a run's folder, $OUTPUT_DIR/NAME of the scripts"
        raise UserError(f"{folder} is not a training run: it has neither {LOGS}/ nor {RECORD}; give {hint}.")
    logs, record = folder / LOGS, read_record(folder)
    total_steps = (record or {}).get("total_steps") or None
    if not any(logs.glob("*.jsonl")):
        if record and record["step"]:
            raise UserError(f"{logs} holds no *.jsonl: train with file among trainer.logger.")
        return RunFolder(folder, {}, None, total_steps)
    newest = max(logs.glob("*.jsonl"))
    # What a stopped run logged after its last checkpoint is dropped: the resumed run will log it again.
    reached = max((step for values in read_training_log(newest).values() for step in values), default=None)
    log = read_training_log(logs, reached)
    steps = sorted({step for values in log.values() for step in values})
    return RunFolder(folder, log, steps[-1] if steps else None, total_steps)
