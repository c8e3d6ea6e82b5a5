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
# What follows the split in the names of samples files.
SAMPLED, GREEDY = ".jsonl", ".greedy.jsonl"


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
    evaluate = config.evaluate
    folder = Path(evaluate.output).expanduser()

    def relative(file: str | Path) -> str:
        return os.path.relpath(Path(file).expanduser(), folder)

    def of_splits(found: dict[str, Path], greedy_of: dict[str, Path]) -> dict[str, dict[str, str]]:
        entries = {split: {"samples": relative(found[split + SAMPLED])} for split in splits}
        for split, entry in entries.items():
            if greedy := greedy_of.get(split + GREEDY):
                entry["greedy"] = relative(greedy)
        return entries

    methods: dict[str, dict[str, object]] = {}
    for name, found in files.items():
        methods[name] = {"splits": of_splits(found, files[BASE] if name == BASE_AGAIN else found)}
        methods[name] |= OmegaConf.to_container(evaluate.methods.get(name) or OmegaConf.create())
        if name in runs and (log := runs[name].log()):
            methods[name]["training_log"] = relative(log)
        if of_steps := checkpoints.get(name):
            # The model itself is the run's last checkpoint.
            of_steps = of_steps | {runs[name].step: found}
            methods[name]["checkpoints"] = {str(step): {"splits": of_splits(f, f)} for step, f in of_steps.items()}
    data_files = [Path(file).expanduser() for split in splits.values() for file in split.files]
    no_styles = evaluate.styles_by == NO_STYLES
    spec = {
        "title": evaluate.title,
        "summary": evaluate.summary,
        "methods": methods,
        "questions": {name: [relative(file) for file in split.files] for name, split in splits.items()},
        "groups": groups_of(data_files, DEFAULT_GROUPS if evaluate.groups is None else list(evaluate.groups)),
        "styles": [] if no_styles else list(KNOWN_STYLES),
        "styles_by": BY_PREFIX if no_styles else evaluate.styles_by,
        "solved_in": evaluate.solved_in,
    }
    path = folder / "spec.json"
    atomic_write.write_text(path, json.dumps(spec, indent=2) + "\n")
    return path
