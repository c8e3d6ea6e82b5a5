"""File names of an evaluation's samples, and its report's specification."""

from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from rl.data.training_run import Run
from rl.evaluation.analysis.questions import groups_of
from rl.evaluation.benchmarks import Split
from rl.evaluation.spec import BASE, BASE_AGAIN, ReportSpec, specification
from rl.metrics.styles import BY_PREFIX, KNOWN_STYLES

NO_STYLES = "none"
DEFAULT_GROUPS = ["difficulty"]  # where rows have them
# What follows the split in the names of samples files.
SAMPLED, GREEDY = ".jsonl", ".greedy.jsonl"


def evaluation_spec(
    config: DictConfig,
    splits: dict[str, Split],
    files: dict[str, dict[str, Path]],
    checkpoints: dict[str, dict[int, dict[str, Path]]],
    runs: dict[str, Run],
) -> ReportSpec:
    """The specification of an evaluation's report.

    Args:
        files: {method: {file name: path}}.
        checkpoints: {method: {training step: {file name: path}}}.
        runs: the training runs among the methods.
    """
    evaluate = config.evaluate

    def of_splits(found: dict[str, Path], greedy_of: dict[str, Path]) -> dict[str, dict[str, Path | None]]:
        return {split: {"samples": found[split + SAMPLED], "greedy": greedy_of.get(split + GREEDY)} for split in splits}

    methods: dict[str, dict[str, object]] = {}
    for name, found in files.items():
        methods[name] = {"splits": of_splits(found, files[BASE] if name == BASE_AGAIN else found)}
        methods[name] |= OmegaConf.to_container(evaluate.methods.get(name) or OmegaConf.create())
        if name in runs:
            methods[name]["training_log"] = runs[name].log()
        if of_steps := checkpoints.get(name):
            # The model itself is the run's last checkpoint.
            of_steps = of_steps | {runs[name].step: found}
            methods[name]["checkpoints"] = {str(step): {"splits": of_splits(f, f)} for step, f in of_steps.items()}
    data_files = {name: [Path(file).expanduser() for file in split.files] for name, split in splits.items()}
    wanted = DEFAULT_GROUPS if evaluate.groups is None else list(evaluate.groups)
    no_styles = evaluate.styles_by == NO_STYLES
    content = {
        "title": evaluate.title,
        "summary": evaluate.summary,
        "methods": methods,
        "questions": data_files,
        "groups": groups_of([file for files in data_files.values() for file in files], wanted),
        "styles": [] if no_styles else KNOWN_STYLES,
        "styles_by": BY_PREFIX if no_styles else evaluate.styles_by,
        "solved_in": evaluate.solved_in,
    }
    return specification(content, Path.cwd())
