"""The specification of a report of several runs, from their evaluations."""

import itertools
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl.common.errors import UserError
from rl.common.text import shortest_names
from rl.data.sample_file import read_metadata
from rl.data.training_run import LOGS, step_of
from rl.evaluation.analysis.questions import are_those_sampled, groups_of
from rl.evaluation.run_folder import RunFolder, is_run, read_run
from rl.evaluation.spec import (
    BASE,
    BASE_AGAIN,
    WITH_DIVERGENCE,
    Checkpoint,
    MethodSpec,
    ReportSpec,
    read_spec,
    specification,
)

SPEC, EVALUATION = "spec.json", "evaluation"


@dataclass(frozen=True)
class Candidate:
    """A folder that was named on the command line: a run, or the output of an evaluation.

    Attributes:
        name: the end of its path, as short as the other names allow.
        run: None for the output of an evaluation.
        evaluation: the specification of its report.
    """

    name: str
    folder: Path
    run: RunFolder | None
    evaluation: ReportSpec

    @property
    def method(self) -> str:
        """The name of the run in the report."""
        assert self.run is not None
        return method_name(self.name, rehearses=any(self.run.log.get("dph/coefficient", {}).values()))

    def described(self) -> dict[str, Any]:
        """The run's label and training log, for the specification."""
        assert self.run is not None
        return {"label": self.name} | ({"training_log": self.folder / LOGS} if self.run.log else {})


def method_name(name: str, rehearses: bool) -> str:
    """The name of a run in the report, where methods with a divergence begin with dph."""
    if rehearses:
        return name if name.startswith(WITH_DIVERGENCE) else f"{WITH_DIVERGENCE}_{name}"
    reserved = name.startswith(WITH_DIVERGENCE) or name in (BASE, BASE_AGAIN)
    return f"run_{name}" if reserved else name


def comparison_spec(named: Mapping[str, Path]) -> ReportSpec:
    """The specification of the report of {name: folder}.

    Raises:
        UserError: a folder is not a run, or the run has not ended; a run has no samples; or the runs have no samples in
            common.
    """
    candidates = [read_candidate(name, folder) for name, folder in named.items()]
    specs = [candidate.evaluation for candidate in candidates]
    first = specs[0]
    for candidate, spec in zip(candidates, specs, strict=True):
        _require_same_base(candidate, spec, first)
    splits = [split for split in first.splits if all(split in spec.splits for spec in specs)]
    if not splits:
        raise UserError(
            f"The evaluations have no split in common ({'; '.join(', '.join(spec.splits) for spec in specs)}): "
            "evaluate all runs on one."
        )
    methods = {name: first.methods[name] for name in (BASE, BASE_AGAIN) if name in first.methods}
    for candidate, spec in zip(candidates, specs, strict=True):
        for name in spec.trained:
            method = spec.methods[name]
            is_run = candidate.run is not None and len(spec.trained) == 1
            if is_run:
                name, method = candidate.method, method.model_copy(update=candidate.described())
            if name in methods:
                name = _free(f"{name}_{candidate.name}", methods, "_{}")
            labels = {other.label for other in methods.values()}
            if method.label in labels:
                label = _free(f"{method.label} ({candidate.name})", labels, " {}")
                method = method.model_copy(update={"label": label})
            methods[name] = method
    left_out = sorted({split for spec in specs for split in spec.splits} - {*splits})
    asked = {split: files for spec in reversed(specs) for split, files in spec.questions.items() if split in splits}
    found = {split: files for split, files in asked.items() if _are_there(first, split, files)}
    caveats = []
    if left_out:
        caveats.append(f"Left out, because not all runs were evaluated on it: {', '.join(left_out)}.")
    if unknown := [split for split in asked if split not in found]:
        caveats.append(
            f"Without questions and groups, because the data files are gone or changed: {', '.join(unknown)}."
        )
    content = {
        "methods": {name: _on(splits, method) for name, method in methods.items()},
        "questions": found,
        "groups": groups_of([file for of in found.values() for file in of], _group_keys(specs)),
        "commands": list(dict.fromkeys(command for spec in specs for command in spec.commands)),
        "styles": first.styles,
        "styles_by": first.styles_by,
        "solved_in": first.solved_in,
        "caveats": caveats,
    }
    about = {
        "title": "Training runs compared",
        "summary": f"{', '.join(named)}, compared on the samples of their evaluations (dph compare).",
        "settings": {candidate.name: str(candidate.folder) for candidate in candidates},
    }
    return specification(about | content, Path.cwd())


def _free(name: str, taken: Container[str], numbered: str) -> str:
    """The name, with a number if it is taken."""
    numbers = (name + numbered.format(number) for number in itertools.count(2))
    return next(free for free in itertools.chain([name], numbers) if free not in taken)


def distinct(folders: Sequence[Path]) -> list[Path]:
    """The folders' absolute paths.

    Raises:
        UserError: a run is named twice.
    """
    resolved = [folder.expanduser().resolve() for folder in folders]
    if len({*map(run_of_folder, resolved)}) < len(resolved):
        raise UserError(f"{folders[0]} and others: a run is named twice; name it once.")
    return resolved


def run_of_folder(folder: Path) -> Path:
    """The run whose evaluation the folder is; another folder as it is."""
    return folder.parent if folder.name == EVALUATION else folder


def names_of(folders: Sequence[Path]) -> dict[str, Path]:
    """{name: folder}, with the names of shortest_names.

    Raises:
        UserError: a run is named twice.
    """
    resolved = distinct(folders)
    return dict(zip(shortest_names([*map(run_of_folder, resolved)]), resolved, strict=True))


def read_candidate(name: str, folder: Path) -> Candidate:
    """
    Raises:
        UserError: the folder is not a run or an evaluation, the run has not ended, or it has no samples.
    """
    if (folder / SPEC).is_file():
        return Candidate(name, folder, None, read_spec(folder / SPEC))
    if folder.is_dir() and not is_run(folder):
        raise UserError(f"{folder} is neither a run nor an output folder of `dph evaluate` (it has no {SPEC}).")
    run = read_run(folder)
    if run.step is None or (run.total_steps is not None and not run.has_ended):
        raise UserError(
            f"{folder} has not ended ({run.progress}): let it finish, or compare its checkpoints with dph evaluate."
        )
    spec = folder / EVALUATION / SPEC
    if not spec.is_file():
        raise UserError(
            f"{folder} has no samples to compare: evaluate it into {folder / EVALUATION} (the command that training "
            "ends with)."
        )
    found = Candidate(name, folder, run, read_spec(spec))
    _require_last_step(found)
    return found


def _require_last_step(candidate: Candidate) -> None:
    """Raise UserError if a run has been trained on since its evaluation."""
    spec, run = candidate.evaluation, candidate.run
    assert run is not None
    for name in spec.trained:
        model = model_of(spec, name)
        if len(spec.trained) > 1 and not model.resolve().is_relative_to(candidate.folder):
            continue  # another run's
        evaluated = evaluated_step(model)
        if evaluated not in (None, run.step):
            raise UserError(
                f"{candidate.folder} was evaluated at step {evaluated} and is at step {run.step}: evaluate its newest "
                f"checkpoint, or compare the evaluation by its own folder, {candidate.folder / EVALUATION}."
            )


def model_of(spec: ReportSpec, name: str) -> Path:
    """The path of the model that a method's samples were drawn from."""
    return Path(read_metadata(spec.methods[name].splits[spec.splits[0]].samples).model)


def evaluated_step(model: Path) -> int | None:
    """The training step in a checkpoint's path; None for another model."""
    return next((step for folder in (model, *model.parents) if (step := step_of(folder)) is not None), None)


def _on(splits: Sequence[str], method: MethodSpec) -> MethodSpec:
    """The method with its files of these splits only."""
    parts = {
        step: {split: files for split, files in checkpoint.splits.items() if split in splits}
        for step, checkpoint in method.checkpoints.items()
    }
    checkpoints = {step: Checkpoint(splits=files) for step, files in parts.items() if files}
    return method.model_copy(
        update={"splits": {split: method.splits[split] for split in splits}, "checkpoints": checkpoints}
    )


def _require_same_base(candidate: Candidate, spec: ReportSpec, first: ReportSpec) -> None:
    of_both = [s.methods[BASE].splits[s.splits[0]].samples for s in (first, spec)]
    hashes = [read_metadata(path).model_hash for path in of_both]
    if hashes[0] != hashes[1]:
        raise UserError(
            f"{candidate.folder} was evaluated against another base model ({of_both[1]}) than the first run "
            f"({of_both[0]}): compare runs with one base."
        )
    for key in ("styles", "styles_by", "solved_in"):
        if getattr(spec, key) != getattr(first, key):
            raise UserError(
                f"{candidate.folder} was evaluated with {key} {getattr(spec, key)} and the first run with "
                f"{getattr(first, key)}: evaluate it again with the same settings (its samples are kept)."
            )


def _are_there(spec: ReportSpec, split: str, files: Sequence[Path]) -> bool:
    """Whether a split's data files exist, and are those that the base's samples were drawn from."""
    sampled = read_metadata(spec.methods[BASE].splits[split].samples).data_files
    return all(file.is_file() for file in files) and are_those_sampled(files, sampled)


def _group_keys(specs: Sequence[ReportSpec]) -> list[str]:
    """The keys that group the questions."""
    return list(dict.fromkeys(key for spec in specs for key in spec.groups))
