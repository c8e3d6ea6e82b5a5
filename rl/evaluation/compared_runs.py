"""The specification of a report of several runs: from their evaluations, or from their validations."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl.common.errors import UserError
from rl.data.sample_file import read_metadata
from rl.data.training_run import LOGS
from rl.evaluation.analysis.questions import groups_of
from rl.evaluation.outputs import DEFAULT_GROUPS
from rl.evaluation.run_folder import RunFolder, read_run
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
from rl.evaluation.validation_samples import Dump, Validations, read_dump, write_samples
from rl.metrics.pass_at_k import SOLVED_IN

SPEC, EVALUATION = "spec.json", "evaluation"


@dataclass(frozen=True)
class Candidate:
    """A folder that was named on the command line: a run, or the output of an evaluation.

    Attributes:
        name: the end of its path, as short as the other names allow.
        run: None for the output of an evaluation.
        evaluation: the specification of the run's evaluation, if it has one.
    """

    name: str
    folder: Path
    run: RunFolder | None
    evaluation: ReportSpec | None

    @property
    def method(self) -> str:
        """The name of the run in the report."""
        assert self.run is not None
        return method_name(self.name, rehearses="dph/coefficient" in self.run.log)

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


def comparison_spec(named: Mapping[str, Path], out: Path) -> ReportSpec:
    """The specification of the report of {name: folder}; samples files of validations are written below `out`.

    Raises:
        UserError: a folder is not a run, or the run has not ended; a run has no samples; or the runs have no samples in
            common.
    """
    candidates = [_candidate(name, folder) for name, folder in named.items()]
    lacking = [candidate for candidate in candidates if candidate.evaluation is None]
    if not lacking:
        return _of_evaluations(candidates)
    validations = {c.name: Validations.of(c.folder) for c in candidates if c.run is not None}
    found = {name: of for name, of in validations.items() if of is not None and of.steps.keys() - {0}}
    for candidate in lacking:
        if candidate.name not in found:
            raise UserError(
                f"{candidate.folder} has no samples to compare: evaluate it into {candidate.folder / EVALUATION} (the "
                "command that training ends with), or train with trainer.validation_data_dir, val_before_train=True "
                "and save_freq."
            )
    for candidate in candidates:
        if candidate.name not in found:
            raise UserError(
                f"{lacking[0].folder} has no evaluation and {candidate.folder} no validations, so that they have no "
                f"samples in common: evaluate {lacking[0].folder} too."
            )
    return _of_validations(candidates, found, out)


def distinct(folders: Sequence[Path]) -> list[Path]:
    """The folders' absolute paths.

    Raises:
        UserError: a run is named twice.
    """
    resolved = [folder.expanduser().resolve() for folder in folders]
    if len({*map(_run_of, resolved)}) < len(resolved):
        raise UserError(f"{folders[0]} and others: a run is named twice; name it once.")
    return resolved


def _run_of(folder: Path) -> Path:
    return folder.parent if folder.name == EVALUATION else folder


def names_of(folders: Sequence[Path]) -> dict[str, Path]:
    """{name: folder}; a name is the last parts of the folder's path, as many as make all names differ.

    Raises:
        UserError: a run is named twice.
    """
    resolved = distinct(folders)
    named = [*map(_run_of, resolved)]
    for parts in range(1, max(len(folder.parts) for folder in named) + 1):
        names = ["_".join(folder.parts[-parts:]).strip("/") for folder in named]
        if len({*names}) == len(names):
            break
    return dict(zip(names, resolved, strict=True))


def _candidate(name: str, folder: Path) -> Candidate:
    if (folder / SPEC).is_file():
        return Candidate(name, folder, None, read_spec(folder / SPEC))
    run = read_run(folder)
    if run.step is None or (run.total_steps is not None and not run.has_ended):
        raise UserError(
            f"{folder} has not ended (step {run.step or 0} of {run.total_steps}): let it finish, or compare its "
            "checkpoints with dph evaluate."
        )
    spec = folder / EVALUATION / SPEC
    return Candidate(name, folder, run, read_spec(spec) if spec.is_file() else None)


def _of_evaluations(candidates: list[Candidate]) -> ReportSpec:
    specs = [candidate.evaluation for candidate in candidates if candidate.evaluation is not None]
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
            if candidate.run is not None and len(spec.trained) == 1:
                name, method = candidate.method, method.model_copy(update=candidate.described())
            elif name in methods:
                label = f"{method.label} ({candidate.name})"
                name, method = f"{name}_{candidate.name}", method.model_copy(update={"label": label})
            methods[name] = method
    left_out = sorted({split for spec in specs for split in spec.splits} - {*splits})
    asked = {split: files for spec in reversed(specs) for split, files in spec.questions.items() if split in splits}
    content = {
        "methods": {name: _on(splits, method) for name, method in methods.items()},
        **_questions(asked, [key for spec in specs for key in spec.groups]),
        "commands": list(dict.fromkeys(command for spec in specs for command in spec.commands)),
        "styles": first.styles,
        "styles_by": first.styles_by,
        "solved_in": first.solved_in,
        "caveats": [f"Left out, because not all runs were evaluated on it: {', '.join(left_out)}."] if left_out else [],
    }
    return _described(candidates, "their evaluations", content)


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


def _of_validations(candidates: list[Candidate], found: dict[str, Validations], out: Path) -> ReportSpec:
    """The base is step 0 of the first run that has one; its second draw is step 0 of a run with another seed."""
    dumps = {
        name: {step: read_dump(path, of.metadata) for step, path in of.steps.items()} for name, of in found.items()
    }
    with_base = [name for name, of_steps in dumps.items() if 0 in of_steps]
    if not with_base:
        raise UserError(
            "No run validated the initial policy, which the others are compared with: train one with "
            "trainer.val_before_train=True, or evaluate them."
        )
    base = found[with_base[0]].metadata
    for candidate in candidates:
        if found[candidate.name].metadata.model_hash != base.model_hash:
            raise UserError(
                f"{candidate.folder} starts from another model than {with_base[0]}: compare runs with one base."
            )
    again = next((name for name in with_base if found[name].metadata.seed != base.seed), None)
    ids, dropped = _common_prompts([dump for of_steps in dumps.values() for dump in of_steps.values()], base.n)

    def files(name: str, step: int) -> dict[str, dict[str, Path]]:
        splits = {}
        for source, of_source in ids.items():
            path = out / "samples" / f"{name}.{step}" / f"{_file_name(source)}.jsonl"
            metadata = found[name].metadata_of(step, len(of_source))
            write_samples(path, dumps[name][step][source], of_source, metadata)
            splits[_file_name(source)] = {"samples": path}
        return splits

    methods: dict[str, dict[str, Any]] = {BASE: {"splits": files(with_base[0], 0)}}
    if again is not None:
        methods[BASE_AGAIN] = {"splits": files(again, 0)}
    for candidate in candidates:
        steps = [step for step in dumps[candidate.name] if step]
        of_steps = {str(step): {"splits": files(candidate.name, step)} for step in steps}
        entry = {"splits": of_steps[str(steps[-1])]["splits"], "checkpoints": of_steps if len(steps) > 1 else {}}
        methods[candidate.method] = entry | candidate.described()
    caveats = ["The samples come from validation during training, with its settings. None of them is greedy."]
    if dropped:
        prompts = "1 prompt" if dropped == 1 else f"{dropped} prompts"
        caveats.append(f"{prompts} left out, because a rollout failed in at least one validation.")
    validated = [Path(file) for file in base.data_files]
    content = {
        "methods": methods,
        **_questions({_file_name(source): validated for source in ids}, DEFAULT_GROUPS),
        # Without a second draw, the base's later samples are its noise floor.
        "solved_in": min(SOLVED_IN, base.n if again else max(base.n // 2, 1)),
        "caveats": caveats,
    }
    return _described(candidates, "their validations", content)


def _common_prompts(dumps: list[Dump], n: int) -> tuple[dict[str, list[int]], int]:
    """{data source: ids of the prompts that have n samples in every dump}, and the number of other prompts."""
    sources = [source for source in dumps[0] if all(source in dump for dump in dumps)]
    ids = {
        source: sorted(id for id in dumps[0][source] if all(len(dump[source].get(id, [])) == n for dump in dumps))
        for source in sources
    }
    ids = {source: of_source for source, of_source in ids.items() if of_source}
    if not ids:
        raise UserError("The runs validated on different prompts: evaluate them on the same ones.")
    seen = {(source, id) for dump in dumps for source, prompts in dump.items() for id in prompts}
    return ids, len(seen) - sum(map(len, ids.values()))


def _file_name(source: str) -> str:
    return source.replace("/", "_").replace(":", "_")


def _described(candidates: list[Candidate], samples: str, content: dict[str, Any]) -> ReportSpec:
    named = ", ".join(candidate.name for candidate in candidates)
    about = {
        "title": "Training runs compared",
        "summary": f"{named}, compared on the samples of {samples} (dph compare).",
        "settings": {candidate.name: str(candidate.folder) for candidate in candidates},
    }
    return specification(about | content, Path.cwd())


def _questions(asked: dict[str, list[Path]], groups: Iterable[str]) -> dict[str, Any]:
    """The data files of each split's questions, if they still exist, and the keys that group the questions."""
    found = {split: files for split, files in asked.items() if all(file.is_file() for file in files)}
    keys = list(dict.fromkeys(groups))
    return {"questions": found, "groups": groups_of([file for files in found.values() for file in files], keys)}
