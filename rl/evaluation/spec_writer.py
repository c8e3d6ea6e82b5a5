"""File names of an evaluation's samples, and the report's specification (spec.json) beside them."""

import json
import os
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from rl.common import atomic_write
from rl.data.training_run import Run
from rl.evaluation.analysis.questions import groups_of
from rl.evaluation.benchmarks import Split
from rl.evaluation.spec import BASE, BASE_AGAIN
from rl.metrics.styles import BY_PREFIX, KNOWN_STYLES

NO_STYLES = "none"
DEFAULT_GROUPS = ["difficulty"]  # where rows have them


def samples_file(split: str) -> str:
    return f"{split}.jsonl"


def greedy_file(split: str) -> str:
    return f"{split}.greedy.jsonl"


def write_spec(
    config: DictConfig,
    splits: dict[str, Split],
    files: dict[str, dict[str, Path]],
    checkpoints: dict[str, dict[int, dict[str, Path]]],
    runs: dict[str, Run],
) -> Path:
    """Write the report's specification beside the samples (evaluation/spec.py).

    Args:
        files: {method: {file name: path}}.
        checkpoints: {method: {training step: {file name: path}}}.
        runs: the training runs among the methods.
    """
    folder = Path(config.evaluate.output).expanduser()

    def of_splits(found: dict[str, Path], greedy_of: dict[str, Path]) -> dict[str, dict[str, str]]:
        entries: dict[str, dict[str, str]] = {}
        for split in splits:
            entries[split] = {"samples": os.path.relpath(found[samples_file(split)], folder)}
            if greedy := greedy_of.get(greedy_file(split)):
                entries[split]["greedy"] = os.path.relpath(greedy, folder)
        return entries

    methods: dict[str, dict[str, object]] = {}
    for name, found in files.items():
        methods[name] = {"splits": of_splits(found, files[BASE] if name == BASE_AGAIN else found)}
        methods[name] |= OmegaConf.to_container(config.evaluate.methods.get(name) or OmegaConf.create())
        if name in runs and (log := runs[name].log()):
            methods[name]["training_log"] = os.path.relpath(log, folder)
        if of_steps := checkpoints.get(name):
            # The model itself is the run's last checkpoint.
            of_steps = of_steps | {runs[name].step: found}
            methods[name]["checkpoints"] = {str(step): {"splits": of_splits(f, f)} for step, f in of_steps.items()}
    styles_by = config.evaluate.styles_by
    spec = {
        "title": config.evaluate.title,
        "summary": config.evaluate.summary,
        "methods": methods,
        "questions": {
            name: [os.path.relpath(Path(file).expanduser(), folder) for file in split.files]
            for name, split in splits.items()
        },
        "groups": groups_of(
            [Path(file).expanduser() for split in splits.values() for file in split.files],
            DEFAULT_GROUPS if config.evaluate.groups is None else list(config.evaluate.groups),
        ),
        "styles": [] if styles_by == NO_STYLES else list(KNOWN_STYLES),
        "styles_by": BY_PREFIX if styles_by == NO_STYLES else styles_by,
        "solved_in": config.evaluate.solved_in,
    }
    path = folder / "spec.json"
    atomic_write.write_text(path, json.dumps(spec, indent=2) + "\n")
    return path
