"""Training logs: the JSONL of verl's `file` logger, one {"step": int, "data": {metric: value}} per line.

A resumed run starts another file, named by its time (scripts/lib/launch.sh); the folder of these files is a log too.
"""

import json
import math
from pathlib import Path

from rl.common.errors import UserError

# {metric: {step: value}}, steps ascending
TrainingLog = dict[str, dict[int, float]]

# Logs that were written before a metric had its name.
RENAMED = {"dph/share_at_bound": "dph/clip_fraction", "dph/share_at_policy_bound": "dph/policy_clip_fraction"}


def read_training_log(path: Path) -> TrainingLog:
    """The finite numbers of a training log; if a resumed run logs a step again, the later line wins.

    Args:
        path: a log, or a folder of logs, in chronological order of their names.

    Raises:
        UserError: there is no log, or a line is not a log line. An unfinished last line of a killed run is ignored.
    """
    log: TrainingLog = {}
    for part in _parts(path):
        for number, line in enumerate(_lines(part), start=1):
            step, data = _step_and_data(part, number, line)
            for metric, value in data.items():
                if type(value) in (int, float) and math.isfinite(value):
                    log.setdefault(RENAMED.get(metric, metric), {})[step] = float(value)
    return {metric: dict(sorted(values.items())) for metric, values in log.items()}


def _parts(path: Path) -> list[Path]:
    parts = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not parts:
        raise UserError(f"The folder {path} holds no training log (*.jsonl): train with the file logger.")
    return parts


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"The training log {path} cannot be read ({error.strerror}): train with the file logger."
        ) from error
    return text[: text.rfind("\n") + 1].splitlines()


def _step_and_data(path: Path, number: int, line: str) -> tuple[int, dict]:
    try:
        entry = json.loads(line)
        step, data = entry["step"], entry["data"]
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} line {number} is not a line of verl's file logger; train again with it.") from error
    if type(step) is not int or not isinstance(data, dict):
        raise UserError(f"{path} line {number} has step {step!r} and no metrics; train again with verl's file logger.")
    return step, data
