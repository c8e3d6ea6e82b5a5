"""Training logs: the JSONL of verl's `file` logger, one {"step": int, "data": {metric: value}} per line.

A resumed run starts another file, which is named by its time. A folder of such files is a log too.
"""

import json
import math
from pathlib import Path

from rl.common.errors import UserError
from rl.data.training_run import newest_manifest

# {metric: {step: value}}, steps ascending
TrainingLog = dict[str, dict[int, float]]


def read_training_log(path: Path) -> TrainingLog:
    """The finite numbers of a training log; if a resumed run logs a step again, the later line wins.

    Args:
        path: a log, or a folder of logs whose names are in chronological order.

    Raises:
        UserError: there is no log, or a line is not a log line. The unfinished last line of a killed run is ignored.
    """
    parts = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not parts:
        raise UserError(f"The folder {path} holds no training log (*.jsonl): train with the file logger.")
    log: TrainingLog = {}
    for part in parts:
        try:
            text = part.read_text(encoding="utf-8")
        except OSError as error:
            raise UserError(
                f"The training log {part} cannot be read ({error.strerror}): train with the file logger."
            ) from error
        for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines(), start=1):
            try:
                entry = json.loads(line)
                step, metrics = entry["step"], entry["data"].items()
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise UserError(
                    f"{part} line {number} is not a line of verl's file logger; train again with it."
                ) from error
            if type(step) is not int:
                raise UserError(f"{part} line {number} has step {step!r}; train again with verl's file logger.")
            for metric, value in metrics:
                if type(value) in (int, float) and math.isfinite(value):
                    log.setdefault(metric, {})[step] = float(value)
    return {metric: dict(sorted(values.items())) for metric, values in log.items()}


def training_files(log: Path) -> dict[str, str] | None:
    """{SHA-256: name} of the files with the prompts that a run was trained on; None if no checkpoint says it.

    Args:
        log: the run's training log: a file or a folder, in the run's folder or in a subfolder of it.

    Raises:
        UserError: a checkpoint's manifest is damaged.
    """
    manifests = (newest_manifest(folder) for folder in (log.parent, log.parent.parent))
    manifest = next((found for found in manifests if found), None)
    files = manifest["data"].get("train_files") if manifest else None
    return {digest: Path(path).name for path, digest in files.items()} if files else None
