"""The JSONL that verl's `file` logger writes: one {"step": int, "data": {metric: value}} a line."""

import json
import math
from pathlib import Path

from verl.dph.errors import UserError

# {metric: {step: value}}, steps ascending
TrainingLog = dict[str, dict[int, float]]


def read_training_log(path: Path) -> TrainingLog:
    """The finite numbers of a training log; where a resumed run logs a step again, the later line holds.

    Raises:
        UserError: the file is missing, or a line is not a log line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(
            f"The training log {path} cannot be read ({error.strerror}): train with the file logger."
        ) from error
    log: TrainingLog = {}
    for number, line in enumerate(lines, start=1):
        step, data = _step_and_data(path, number, line)
        for metric, value in data.items():
            if type(value) in (int, float) and math.isfinite(value):
                log.setdefault(metric, {})[step] = float(value)
    return {metric: dict(sorted(values.items())) for metric, values in log.items()}


def _step_and_data(path: Path, number: int, line: str) -> tuple[int, dict]:
    try:
        entry = json.loads(line)
        step, data = entry["step"], entry["data"]
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} line {number} is not a line of verl's file logger; train again with it.") from error
    if type(step) is not int or not isinstance(data, dict):
        raise UserError(f"{path} line {number} has step {step!r} and no metrics; train again with verl's file logger.")
    return step, data
