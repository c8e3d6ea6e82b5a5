"""The files of an evaluation: a stored base to compare with, the report's specification, and the table at the end."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from rl.common.errors import UserError
from rl.common.fingerprint import short
from rl.data.sample_file import HASHES, SampleMetadata, read_metadata
from rl.data.sample_summary import summarize
from rl.data.training_run import LOGS, Run
from rl.evaluation.analysis.questions import groups_of
from rl.evaluation.spec import BASE, BASE_AGAIN, ReportSpec, read_spec, role_of_run, specification
from rl.evaluation.splits import Split
from rl.evaluation.table import Cell, Row, Table, as_text, plain_columns
from rl.metrics.pass_at_k import pass_at_k
from rl.metrics.styles import BY_PREFIX, KNOWN_STYLES

# The specification of a report, in its folder.
SPEC = "spec.json"
NO_STYLES = "none"
DEFAULT_GROUPS = ["difficulty"]  # if rows have it
# What follows the split in the name of a samples file.
SAMPLED, GREEDY = ".jsonl", ".greedy.jsonl"


def check_base(folder: Path) -> None:
    """Reject an evaluate.base without samples of a base: a trained model's would be compared with."""
    if not _base_in(folder).is_dir():
        raise UserError(
            f"evaluate.base={folder} has no folder {BASE}: give the output folder of an earlier evaluation that has a "
            f"model named {BASE}."
        )


def check_report(folder: Path, models: Iterable[str], splits: Iterable[str]) -> None:
    """Reject a folder whose report has models or splits that a new report would not have."""
    if not (folder / SPEC).is_file():
        return
    earlier = read_spec(folder / SPEC)
    if {*earlier.trained} <= {*models} and {*earlier.splits} <= {*splits}:
        return
    raise UserError(
        f"{folder} has a report of {', '.join(earlier.trained) or BASE} on {', '.join(sorted(earlier.splits))}. This "
        "one would replace it and leave some of these out: name them all (their samples are kept), or another folder "
        "in evaluate.output."
    )


def stored_base(folder: Path, wanted: dict[str, SampleMetadata]) -> dict[str, dict[str, Path]]:
    """The base samples of an earlier evaluation: {base: {file name: path}}, and base_again if it is stored too.

    Args:
        folder: the evaluation's output folder (with base/ in it), or base/ itself.
        wanted: by file name (bird.jsonl, ...), metadata of the methods that are compared with the base.
    """
    check_base(folder)
    base = _base_in(folder)
    found = {BASE: {name: base / name for name in wanted}}
    again = base.parent / BASE_AGAIN
    sampled = [name for name in wanted if not name.endswith(GREEDY)]
    if all((again / name).is_file() for name in sampled):
        found[BASE_AGAIN] = {name: again / name for name in sampled}
    for files in found.values():
        for name, path in files.items():
            _require_same(path, wanted[name])
    return found


def require_base_judged_alike(folder: Path, names: Iterable[str], scorer: str) -> None:
    """Reject a scorer that judges otherwise than the one of the base's samples, before others are drawn.

    Args:
        folder: as in stored_base.
        names: of the files that are about to be drawn; the base may lack some.
        scorer: what decides its verdicts (verdict_sha256), or "".
    """
    for path in (_base_in(folder) / name for name in names):
        judged_by = read_metadata(path).scorer if path.is_file() else ""
        if "" not in (judged_by, scorer) and judged_by != scorer:
            raise UserError(
                f"A scorer with other settings judged {path} (verdict_sha256 was {short(judged_by)} "
                f"and is {short(scorer)}), and samples that this one judges could not be compared with it: start the "
                "scorer as before, or sample the base again."
            )


def _base_in(folder: Path) -> Path:
    within = folder / BASE
    return folder if folder.name == BASE and not within.is_dir() else within


def _require_same(path: Path, wanted: SampleMetadata) -> None:
    if not path.is_file():
        raise UserError(
            f"The stored base run has no {path}: evaluate the base on this split too, with the same n and greedy."
        )
    stored = read_metadata(path)
    if difference := stored.difference(wanted, besides=("seed", *HASHES)):
        raise UserError(
            f"The stored base run {path} cannot be compared: it has {difference}; use the same data and settings, or "
            "sample the base again."
        )
    with open(path, "rb") as file:
        lines = sum(1 for _ in file)
    if lines != stored.rows * stored.n:
        raise UserError(
            f"The stored base run {path} holds {lines} of {stored.rows * stored.n} samples: re-run that evaluation "
            "to resume it."
        )


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
        runs: {method: its training run}, for the methods that are runs.
    """
    evaluate = config.evaluate

    def of_splits(found: dict[str, Path], greedy_of: dict[str, Path]) -> dict[str, dict[str, Path | None]]:
        return {split: {"samples": found[split + SAMPLED], "greedy": greedy_of.get(split + GREEDY)} for split in splits}

    methods: dict[str, dict[str, object]] = {}
    for name, found in files.items():
        methods[name] = {"splits": of_splits(found, files[BASE] if name == BASE_AGAIN else found)}
        methods[name] |= {"role": role_of_run(runs[name].folder / LOGS)} if name in runs else {}
        methods[name] |= OmegaConf.to_container(evaluate.methods.get(name) or OmegaConf.create())
        if name in runs:
            methods[name] |= {"training_log": runs[name].log(), "last_step": runs[name].step}
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


def pass_table(drawn: Mapping[str, Mapping[str, Path]], solved_in: int) -> str:
    """The table that an evaluation prints at its end: a line per model and split; "-" where nothing was sampled.

    Args:
        drawn: {model: {file name: finished samples file}}.
        solved_in: see the report's specification.
    """
    columns = plain_columns("split", "prompts", "greedy", "Pass@1", f"Pass@{solved_in}", "Pass@n", "n")
    rows = []
    for model, files in drawn.items():
        for split in (name.removesuffix(SAMPLED) for name in files if not name.endswith(GREEDY)):
            found, greedy = summarize(files[split + SAMPLED]), files.get(split + GREEDY)
            values = [None if greedy is None else float(summarize(greedy).correct.mean())]
            for k in (1, solved_in, found.n):
                values.append(float(pass_at_k(found.correct, found.n, k).mean()) if k <= found.n else None)
            shares = [None if value is None else Cell(value, digits=4) for value in values]
            prompts, n = (Cell(number, digits=0) for number in (found.correct.size, found.n))
            rows.append(Row(model, "", [Cell(split), prompts, *shares, n]))
    return as_text(Table("", columns, rows, head="model"))
