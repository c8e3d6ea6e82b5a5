"""Training logs: the JSONL of verl's `file` logger, one {"step": int, "data": {metric: value}} per line.

A resumed run starts another file, which is named by its time. A folder of such files is a log too.
"""

import json
import math
from operator import index
from pathlib import Path

from rl.common.errors import UserError, file_errors

# {metric: {step: value}}, steps ascending
TrainingLog = dict[str, dict[int, float]]

# verl logs it with every training step, and not with the validation before the first one.
_OF_A_STEP = "training/global_step"


def read_training_log(path: Path, last_step: int | None = None) -> TrainingLog:
    """The finite numbers of a training log. A resumed run begins another file: what earlier files have from the first
    step that it trains on is not of its model, and is left out.

    Args:
        path: a log, or a folder of logs whose names are in chronological order.
        last_step: leave out later ones; None: keep all.

    Raises:
        UserError: there is no log, or a line is not a log line. The unfinished last line of a killed run is ignored.
    """
    parts = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not parts:
        raise UserError(f"The folder {path} holds no training log (*.jsonl): train with the file logger.")
    log: TrainingLog = {}
    for part in parts:
        with file_errors(f"The training log {part}", "read", "train with the file logger"):
            text = part.read_text(encoding="utf-8")
        of_part: TrainingLog = {}
        for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines(), start=1):
            try:
                entry = json.loads(line)
                step, metrics = index(entry["step"]), entry["data"].items()
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise UserError(
                    f"{part} line {number} is not a line of verl's file logger; train again with it."
                ) from error
            for metric, value in metrics:
                if type(value) in (int, float) and math.isfinite(value):
                    of_part.setdefault(metric, {})[step] = float(value)
        log = _continued(log, of_part)
    if last_step is not None:
        log = _before(log, last_step + 1)
    return {metric: dict(sorted(values.items())) for metric, values in log.items()}


def _continued(log: TrainingLog, of_part: TrainingLog) -> TrainingLog:
    """The log of earlier files before the first step that a later one trains, and the later one."""
    kept = _before(log, min(of_part[_OF_A_STEP])) if _OF_A_STEP in of_part else log
    return {metric: kept.get(metric, {}) | of_part.get(metric, {}) for metric in kept | of_part}


def _before(log: TrainingLog, step: int) -> TrainingLog:
    """The values before a step, and the metrics that have some."""
    kept = {metric: {at: value for at, value in values.items() if at < step} for metric, values in log.items()}
    return {metric: values for metric, values in kept.items() if values}
