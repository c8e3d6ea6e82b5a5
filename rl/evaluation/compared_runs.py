"""The specifications of reports of several runs, from their evaluations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl.common.errors import UserError
from rl.common.text import shortest_names
from rl.configuration.may_change import MAY_CHANGE, among
from rl.configuration.variables import flat
from rl.data.sample_file import read_metadata
from rl.data.training_run import VERDICT, newest_checkpoint, newest_manifest, read_record, step_of
from rl.evaluation.analysis.questions import are_those_sampled, groups_of
from rl.evaluation.outputs import SPEC
from rl.evaluation.spec import BASE, BASE_AGAIN, LABELS, MethodSpec, ReportSpec, read_spec, specification

EVALUATION = "evaluation"


@dataclass(frozen=True)
class Candidate:
    """A folder that was named on the command line: a run, or the output of an evaluation.

    Attributes:
        name: the end of its path, as short as the other names allow, or its method.
        evaluation: the specification of its report.
    """

    name: str
    folder: Path
    evaluation: ReportSpec


def run_of_folder(folder: Path) -> Path:
    """The run whose evaluation the folder is; another folder as it is."""
    return folder.parent if folder.name == EVALUATION else folder


def names_of(folders: Sequence[Path]) -> dict[str, Path]:
    """{name: absolute path} of folders, with the names of shortest_names.

    Raises:
        UserError: a run is named twice.
    """
    resolved = distinct(folders)
    return dict(zip(shortest_names([*map(run_of_folder, resolved)]), resolved, strict=True))


def distinct(folders: Sequence[Path]) -> list[Path]:
    """The folders' absolute paths.

    Raises:
        UserError: a run is named twice.
    """
    resolved = [folder.expanduser().resolve() for folder in folders]
    if len({*map(run_of_folder, resolved)}) < len(resolved):
        raise UserError(f"{folders[0]} and others: a run is named twice; name it once.")
    return resolved


def comparison_spec(named: Mapping[str, Path], title: str = "Training runs compared") -> ReportSpec:
    """The specification of the report of {name: folder}.

    Raises:
        UserError: a folder is not a run, the run has not ended or has no samples; or the runs have another base, other
            settings or other splits.
    """
    candidates = [read_candidate(name, folder) for name, folder in named.items()]
    specs = [candidate.evaluation for candidate in candidates]
    first = specs[0]
    for candidate in candidates:
        _require_same_base(candidate, first)
    methods = {name: first.methods[name] for name in (BASE, BASE_AGAIN) if name in first.methods}
    for candidate in candidates:
        methods |= _methods_of(candidate, methods)
    asked = {split: files for spec in reversed(specs) for split, files in spec.questions.items()}
    found = {split: files for split, files in asked.items() if _are_there(first, split, files)}
    keys, gone = list(dict.fromkeys(key for spec in specs for key in spec.groups)), [*asked.keys() - found.keys()]
    content = {
        "title": title,
        "summary": f"{', '.join(named)}, compared on the samples of their evaluations (dph compare).",
        "settings": {candidate.name: str(candidate.folder) for candidate in candidates},
        "methods": methods,
        "questions": found,
        "groups": groups_of([file for of in found.values() for file in of], keys),
        "commands": list(dict.fromkeys(command for spec in specs for command in spec.commands)),
        "styles": first.styles,
        "styles_by": first.styles_by,
        "solved_in": first.solved_in,
        "caveats": [f"Without questions, whose data files are gone or changed: {', '.join(gone)}."] if gone else [],
    }
    return specification(content, Path.cwd())


def _methods_of(candidate: Candidate, taken: Mapping[str, MethodSpec]) -> dict[str, MethodSpec]:
    """The trained models of an evaluation by names that are free; a single one is called as the folder.

    Raises:
        UserError: no name is free.
    """
    spec, found = candidate.evaluation, {}
    for name in spec.trained:
        method, alone = spec.methods[name], len(spec.trained) == 1
        label = LABELS.get(candidate.name, candidate.name) if alone else method.label
        name = candidate.name if alone else name
        if name in taken or label in {other.label for other in taken.values()}:
            name, label = f"{name}_{candidate.name}", f"{label} ({candidate.name})"
        if name in taken:
            raise UserError(f"{candidate.folder} and others have models named {name}: rename one in its {SPEC}.")
        found[name] = method.model_copy(update={"label": label})
    return found


def read_candidate(name: str, folder: Path) -> Candidate:
    """
    Raises:
        UserError: the folder is not a run or an evaluation, the run has not ended, or it has no samples.
    """
    if (folder / SPEC).is_file():
        return Candidate(name, folder, read_spec(folder / SPEC))
    record = read_record(folder)
    if record is None:
        raise UserError(f"{folder} is neither a run nor an output folder of `dph evaluate` (it has no {SPEC}).")
    if record["step"] < record["total_steps"]:
        raise UserError(
            f"{folder} has not ended (step {record['step']} of {record['total_steps']}): let it finish, or compare its "
            "checkpoints with dph evaluate."
        )
    spec = folder / EVALUATION / SPEC
    if not spec.is_file():
        raise UserError(
            f"{folder} has no samples to compare: evaluate it into {folder / EVALUATION} (the command that training "
            "ends with)."
        )
    found = Candidate(name, folder, read_spec(spec))
    steps = [evaluated_step(found.evaluation, model) for model in found.evaluation.trained]
    if record["step"] not in steps and None not in steps:
        raise UserError(
            f"{folder} was evaluated at step {steps[0]} and is at step {record['step']}: evaluate its newest "
            f"checkpoint, or compare the evaluation by its own folder, {folder / EVALUATION}."
        )
    return found


def evaluated_step(spec: ReportSpec, name: str) -> int | None:
    """The training step in the path of the checkpoint that a method's samples were drawn from; None for another."""
    model = Path(read_metadata(spec.methods[name].splits[spec.splits[0]].samples).model)
    return next((step for folder in (model, *model.parents) if (step := step_of(folder)) is not None), None)


def _require_same_base(candidate: Candidate, first: ReportSpec) -> None:
    spec = candidate.evaluation
    of_both = [s.methods[BASE].splits[s.splits[0]].samples for s in (first, spec)]
    hashes = [read_metadata(path).model_hash for path in of_both]
    if hashes[0] != hashes[1]:
        raise UserError(
            f"{candidate.folder} was evaluated against another base model ({of_both[1]}) than the first run "
            f"({of_both[0]}): compare runs with one base."
        )
    for key in ("splits", "styles", "styles_by", "solved_in"):
        own, other = (sorted(of.splits) if key == "splits" else getattr(of, key) for of in (spec, first))
        if own != other:
            raise UserError(
                f"{candidate.folder} was evaluated with {key} {own} and the first run with {other}: evaluate both "
                "again with the same settings (their samples are kept)."
            )


def _are_there(spec: ReportSpec, split: str, files: Sequence[Path]) -> bool:
    """Whether a split's data files exist, and are those that the base's samples were drawn from."""
    sampled = read_metadata(spec.methods[BASE].splits[split].samples).data_files
    return all(file.is_file() for file in files) and are_those_sampled(files, sampled)


def specs_of_seeds(methods: Mapping[str, Sequence[Path]]) -> dict[int, ReportSpec]:
    """{seed: specification of its report} of methods with a run per seed.

    Raises:
        UserError: see comparison_spec; the runs of a method differ in more than their seeds, or the methods' seeds
            differ.
    """
    distinct([run for of in methods.values() for run in of])
    seeds = _seeds(methods)
    found = {}
    for number, seed in enumerate(seeds):
        named = {method: runs[number].expanduser().resolve() for method, runs in methods.items()}
        for name, folder in named.items():
            if (number_of := len(read_candidate(name, folder).evaluation.trained)) != 1:
                raise UserError(f"--seeds: {folder} holds an evaluation of {number_of} models: name a run per seed.")
        found[seed] = comparison_spec(named, f"Training runs compared, seed {seed}")
    for method in methods:
        steps = {evaluated_step(spec, method) for spec in found.values()}
        if len(steps) > 1:
            each = ", ".join(map(str, sorted(steps, key=str)))
            raise UserError(
                f"--seeds {method}: the runs were evaluated at different steps ({each}): evaluate one step."
            )
    return found


def _seeds(methods: Mapping[str, Sequence[Path]]) -> list[int]:
    """The runs' training seeds, which all methods share; counted from 1 if a run's checkpoint does not say it."""
    found: dict[str, list[Any]] = {}
    for method, runs in methods.items():
        manifests = {run: newest_manifest(run_of_folder(run.expanduser())) or {} for run in runs}
        _require_one_method(method, manifests)
        found[method] = [of.get("settings", {}).get("data", {}).get("seed") for of in manifests.values()]
    if any(None in seeds for seeds in found.values()):
        return [*range(1, 1 + len(next(iter(found.values()))))]
    seeds = next(iter(found.values()))
    if any(of != seeds for of in found.values()):
        each = "; ".join(f"{method}: {', '.join(map(str, of))}" for method, of in found.items())
        raise UserError(f"--seeds pairs runs, but their seeds differ ({each}): name them in the same order of seeds.")
    if len({*seeds}) < len(seeds):
        raise UserError(f"--seeds: the runs have the seeds {', '.join(map(str, seeds))}: name one of each seed.")
    return seeds


def _require_one_method(method: str, manifests: Mapping[Path, Mapping[str, Any]]) -> None:
    """Raise UserError if runs differ in more than seeds, data and what a resumed run may change.

    Args:
        manifests: by run, empty if it has none, and then nothing is compared.
    """
    known = {run: _decisive(run, manifest) for run, manifest in manifests.items() if manifest}
    for run, other in known.items():
        first, one = next(iter(known.items()))
        if unlike := [key for key in sorted(one.keys() & other.keys()) if one[key] != other[key]]:
            each = ", ".join(f"{key} {one[key]} and {other[key]}" for key in unlike[:8])
            raise UserError(
                f"--seeds {method}: {first} and {run} were trained differently ({each}): a method's runs differ in "
                "seeds and data alone."
            )


def _decisive(run: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What runs of one method have in common, where the manifest says it."""
    found = {
        key: None if value == {} else value  # an empty section counts as null
        for key, value in flat(manifest["settings"])
        if not ("seed" in key or among(MAY_CHANGE, key))
    }
    newest = newest_checkpoint(run_of_folder(run.expanduser()))
    said = {
        "the model": str(manifest["model"].get("model_hash", ""))[:12],
        "the last step": newest and step_of(newest),
        VERDICT: found.pop(VERDICT, ""),
    }
    return found | {name: value for name, value in said.items() if value}
