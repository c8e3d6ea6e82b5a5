"""The specifications of reports of several runs, from their evaluations."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rl.common.errors import UserError
from rl.configuration.may_change import MAY_CHANGE, among
from rl.configuration.variables import flat
from rl.data.sample_file import read_metadata
from rl.data.training_run import VERDICT, newest_checkpoint, newest_manifest, read_record, step_of
from rl.evaluation.analysis.questions import are_those_sampled, groups_of
from rl.evaluation.outputs import SPEC
from rl.evaluation.spec import BASE, BASE_AGAIN, LABELS, MethodSpec, ReportSpec, read_spec, specification

EVALUATION = "evaluation"


def run_of_folder(folder: Path) -> Path:
    """The run whose evaluation the folder is; another folder as it is."""
    return folder.parent if folder.name == EVALUATION else folder


def comparison_spec(folders: Mapping[str, Path], title: str = "Training runs compared") -> ReportSpec:
    """The specification of the report of {name: absolute path of a run, or of the output of an evaluation}."""
    specs = {name: read_evaluation(folder) for name, folder in folders.items()}
    first = next(iter(specs.values()))
    methods = {name: first.methods[name] for name in (BASE, BASE_AGAIN) if name in first.methods}
    asked: dict[str, list[Path]] = {}
    for name, spec in specs.items():
        _require_same_base(folders[name], spec, first)
        for method, entry in _methods_of(name, spec).items():
            if method in methods:
                raise UserError(
                    f"{folders[name]} and others have models named {method}: rename it in its {SPEC}, or the folder."
                )
            methods[method] = entry
        asked = spec.questions | asked
    found = {split: files for split, files in asked.items() if _are_there(first, split, files)}
    gone = [*asked.keys() - found.keys()]
    keys = list(dict.fromkeys(key for spec in specs.values() for key in spec.groups))
    content = {
        "title": title,
        "summary": f"{', '.join(folders)}, compared on the samples of their evaluations (dph compare).",
        "settings": {name: str(folder) for name, folder in folders.items()},
        "methods": methods,
        "questions": found,
        "groups": groups_of([file for of in found.values() for file in of], keys),
        "commands": list(dict.fromkeys(command for spec in specs.values() for command in spec.commands)),
        "styles": first.styles,
        "styles_by": first.styles_by,
        "solved_in": first.solved_in,
        "caveats": [f"Without questions, whose data files are gone or changed: {', '.join(gone)}."] if gone else [],
    }
    return specification(content, Path.cwd())


def _methods_of(name: str, spec: ReportSpec) -> dict[str, MethodSpec]:
    """The trained models of an evaluation; a single one is called as its folder."""
    if len(spec.trained) != 1:
        return {model: spec.methods[model] for model in spec.trained}
    return {name: spec.methods[spec.trained[0]].model_copy(update={"label": LABELS.get(name, name)})}


def read_evaluation(folder: Path) -> ReportSpec:
    """The specification of the report of a run or an evaluation."""
    if (folder / SPEC).is_file():
        return read_spec(folder / SPEC)
    record, path = read_record(folder), folder / EVALUATION / SPEC
    if record and record["step"] < record["total_steps"]:
        raise UserError(
            f"{folder} has not ended (step {record['step']} of {record['total_steps']}): let it finish, or compare its "
            "checkpoints with dph evaluate."
        )
    if not path.is_file():
        raise UserError(
            f"{folder} is neither an output folder of `dph evaluate` nor a run with an evaluation: there is no {path}, "
            "which the command at the end of training makes."
        )
    spec = read_spec(path)
    steps = [evaluated_step(spec, model) for model in spec.trained]
    if record and record["step"] not in steps and None not in steps:
        raise UserError(
            f"{folder} was evaluated at step {steps[0]} and is at step {record['step']}: evaluate its newest "
            f"checkpoint, or compare the evaluation by its own folder, {folder / EVALUATION}."
        )
    return spec


def evaluated_step(spec: ReportSpec, name: str) -> int | None:
    """The training step in the path of the checkpoint that a method's samples were drawn from; None for another."""
    model = Path(read_metadata(spec.methods[name].splits[spec.splits[0]].samples).model)
    return next((step for folder in (model, *model.parents) if (step := step_of(folder)) is not None), None)


def _require_same_base(folder: Path, spec: ReportSpec, first: ReportSpec) -> None:
    """Raise UserError unless both evaluations drew one base on the same prompts with the same settings."""
    for key in ("splits", "styles", "styles_by", "solved_in"):
        own, other = (sorted(of.splits) if key == "splits" else getattr(of, key) for of in (spec, first))
        if own != other:
            raise UserError(
                f"{folder} was evaluated with {key} {own} and the first run with {other}: evaluate both "
                "again with the same settings (their samples are kept)."
            )
    for split, files in spec.methods[BASE].splits.items():
        of_first = first.methods[BASE].splits[split].samples
        if difference := read_metadata(files.samples).difference(read_metadata(of_first), besides=("seed",)):
            raise UserError(
                f"{folder} was evaluated otherwise than the first run: the base's {files.samples} has {difference} as "
                f"{of_first} has; evaluate both with one base, the same data files and the same settings."
            )


def _are_there(spec: ReportSpec, split: str, files: Sequence[Path]) -> bool:
    """Whether a split's data files exist, and are those that the base's samples were drawn from."""
    sampled = read_metadata(spec.methods[BASE].splits[split].samples).data_files
    return all(file.is_file() for file in files) and are_those_sampled(files, sampled)


def specs_of_seeds(methods: Mapping[str, Sequence[Path]]) -> dict[int, ReportSpec]:
    """{seed: specification of its report} of {method: absolute paths of its runs, one per seed}."""
    found, seeds = {}, _seeds(methods)
    first = read_evaluation(next(iter(methods.values()))[0])
    for number, seed in enumerate(seeds):
        runs = {method: of[number] for method, of in methods.items()}
        for run in runs.values():
            if (models := len((spec := read_evaluation(run)).trained)) != 1:
                raise UserError(f"--seeds: {run} holds an evaluation of {models} models: name a run per seed.")
            _require_same_base(run, spec, first)
        found[seed] = comparison_spec(runs, f"Training runs compared, seed {seed}")
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
        manifests = {run: newest_manifest(run_of_folder(run)) or {} for run in runs}
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
    newest = newest_checkpoint(run_of_folder(run))
    said = {
        "the model": str(manifest["model"].get("model_hash", ""))[:12],
        "the last step": newest and step_of(newest),
        VERDICT: found.pop(VERDICT, ""),
    }
    return found | {name: value for name, value in said.items() if value}
