"""The report's specification: a JSON file that names the sample files, the training logs and what to say about the run.

    {"title": "...", "summary": "one paragraph: what was run",
     "methods": {"base": {"label": "Base",
                          "splits": {"in_domain": {"samples": "base/in.jsonl", "greedy": "base/in.greedy.jsonl"}}},
                 "grpo": {"splits": {...}, "training_log": "grpo/train.jsonl"}},
     "styles": ["JOIN", "IN"], "styles_by": "prefix", "solved_in": 8, "caveats": ["..."],
     "settings": {"prompts a step": 16}, "seconds": {"train grpo": 52.1}}

Only title, summary and methods are required, and of a split only samples. `base` is the model that all others are
compared with; `base_again`, a second independent draw of it, is the keep rate's noise floor; names that begin with
`dph` are trained with the rehearsal divergence, all others without. An empty list of styles is a task without styles;
styles_by is prefix (the comment that opens the SQL) or structure (how it is built). Paths are relative to the file.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from verl.dph.errors import UserError
from verl.dph.evaluation.prompt_metrics import SOLVED_IN
from verl.dph.evaluation.styles import BY_PREFIX, BY_STRUCTURE, KNOWN_STYLES

BASE = "base"
BASE_AGAIN = "base_again"
LABELS = {
    "base": "Base",
    "base_again": "Base, second draw",
    "grpo": "GRPO",
    "dapo": "DAPO",
    "rkl": "RKL",
    "dph_f": "DPH-F",
    "dph_js": "DPH-JS",
}


@dataclass(frozen=True)
class SplitFiles:
    samples: Path
    greedy: Path | None


@dataclass(frozen=True)
class MethodSpec:
    name: str
    label: str
    splits: dict[str, SplitFiles]
    training_log: Path | None


@dataclass(frozen=True)
class ReportSpec:
    title: str
    summary: str
    methods: dict[str, MethodSpec]
    styles: tuple[str, ...]
    styles_by: str
    solved_in: int
    caveats: tuple[str, ...]
    settings: dict[str, object]
    seconds: dict[str, float]

    @property
    def splits(self) -> list[str]:
        return list(self.methods[BASE].splits)

    @property
    def trained(self) -> list[str]:
        return [name for name in self.methods if name not in (BASE, BASE_AGAIN)]


def read_spec(path: Path) -> ReportSpec:
    """Reads and checks a specification; a UserError names the key that is wrong."""
    try:
        spec = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"The report's specification {path} cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise UserError(f"The report's specification {path} is not JSON: {error}.") from error
    required = {"title": str, "summary": str, "methods": dict}
    optional = {"styles": list, "styles_by": str, "solved_in": int, "caveats": list, "settings": dict, "seconds": dict}
    _check_keys(path, "the specification", spec, required, optional)
    methods = {name: _method(path, name, entry) for name, entry in spec["methods"].items()}
    if BASE not in methods:
        raise UserError(
            f"{path} has no method '{BASE}' under 'methods': it is what the others are compared with; add it."
        )
    for method in methods.values():
        if method.splits.keys() != methods[BASE].splits.keys():
            raise UserError(
                f"{path}: method '{method.name}' has the splits {sorted(method.splits)} and '{BASE}' has "
                f"{sorted(methods[BASE].splits)}; give every method the same splits."
            )
    styles_by = spec.get("styles_by", BY_PREFIX)
    if styles_by not in (BY_PREFIX, BY_STRUCTURE):
        raise UserError(f"{path}: 'styles_by' is {styles_by!r}; it must be {BY_PREFIX!r} or {BY_STRUCTURE!r}.")
    return ReportSpec(
        title=spec["title"],
        summary=spec["summary"],
        methods=methods,
        styles=tuple(spec.get("styles", KNOWN_STYLES)),
        styles_by=styles_by,
        solved_in=spec.get("solved_in", SOLVED_IN),
        caveats=tuple(spec.get("caveats", ())),
        settings=spec.get("settings", {}),
        seconds=spec.get("seconds", {}),
    )


def _method(path: Path, name: str, entry: object) -> MethodSpec:
    _check_keys(path, f"method '{name}'", entry, {"splits": dict}, {"label": str, "training_log": str})
    if not entry["splits"]:
        raise UserError(f"{path}: method '{name}' has no split; give at least one with its samples.")
    splits = {}
    for split, files in entry["splits"].items():
        _check_keys(path, f"split '{split}' of method '{name}'", files, {"samples": str}, {"greedy": str})
        greedy = files.get("greedy")
        splits[split] = SplitFiles(path.parent / files["samples"], path.parent / greedy if greedy else None)
    log = entry.get("training_log")
    label = entry.get("label", LABELS.get(name, name))
    return MethodSpec(name, label, splits, path.parent / log if log else None)


def _check_keys(path: Path, what: str, entry: object, required: dict[str, type], optional: dict[str, type]) -> None:
    if not isinstance(entry, dict):
        raise UserError(f"{path}: {what} must be a JSON object, not {entry!r}.")
    allowed = required | optional
    for key in required.keys() - entry.keys():
        raise UserError(f"{path}: {what} lacks '{key}'; it needs {', '.join(required)}.")
    for key, value in entry.items():
        if key not in allowed:
            raise UserError(f"{path}: {what} has the unknown key '{key}'; known are {', '.join(allowed)}.")
        if type(value) is not allowed[key]:
            raise UserError(f"{path}: '{key}' of {what} must be a {allowed[key].__name__}, not {value!r}.")
