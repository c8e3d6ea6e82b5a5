"""The report's specification: a JSON file that names the sample files, the training logs and what to say about the run.

    {"title": "...", "summary": "one paragraph: what was run",
     "methods": {"base": {"label": "Base",
                          "splits": {"in_domain": {"samples": "base/in.jsonl", "greedy": "base/in.greedy.jsonl"}}},
                 "grpo": {"splits": {...}, "training_log": "grpo/train.jsonl"},
                 "dph_js": {"splits": {...}, "checkpoints": {"40": {"splits": {...}}, "80": {"splits": {...}}},
                            "family": "DPH-JS", "eta": 0.2}},
     "styles": ["JOIN", "IN"], "styles_by": "prefix", "solved_in": 8, "caveats": ["..."],
     "settings": {"prompts a step": 16}, "seconds": {"train grpo": 52.1}}

Only title, summary and methods are required, and of a split only samples. `base` is the model that all others are
compared with; `base_again`, a second independent draw of it, is the keep rate's noise floor; names that begin with
`dph` are trained with the rehearsal divergence, all others without. An empty list of styles is a task without styles;
styles_by is prefix (the comment that opens the SQL) or structure (how it is built). `checkpoints` are the samples of
one run after so many training steps, on some or all of the splits; methods of one `family` differ in `eta`, the
coefficient of their divergence (docs/figures.md). Paths are relative to the file.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from rl.common.errors import UserError
from rl.evaluation.analysis.prompt_metrics import SOLVED_IN
from rl.metrics.styles import BY_PREFIX, BY_STRUCTURE, KNOWN_STYLES

BASE = "base"
BASE_AGAIN = "base_again"
# Keys of a method that only say what it is.
DESCRIBED = {"label": str, "family": str, "eta": (int, float)}
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
    checkpoints: dict[int, dict[str, SplitFiles]]  # {training step, ascending: {split: files}}
    family: str | None  # both or neither
    eta: float | None


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
        for step, splits in method.checkpoints.items():
            if further := sorted(splits.keys() - method.splits.keys()):
                raise UserError(
                    f"{path}: checkpoint {step} of method '{method.name}' has the split '{further[0]}', which is none "
                    f"of the report's ({', '.join(method.splits)}); correct its name, or take it out."
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


def check_described(where: str, entry: object) -> None:
    """What is said of a method beside its samples: label, family and eta.

    Args:
        where: what the error begins with.

    Raises:
        UserError: another key, a value of another type, or only one of family and eta.
    """
    _check_keys(where, "the entry", entry, {}, DESCRIBED)
    family, eta = entry.get("family"), entry.get("eta")
    if (family is None) != (eta is None):
        raise UserError(f"{where} has only one of 'family' and 'eta'; give both, or neither.")
    if eta is not None and not 0 <= eta < math.inf:
        raise UserError(f"{where} has the 'eta' {eta}; it must be a number of at least 0.")


def _method(path: Path, name: str, entry: object) -> MethodSpec:
    optional = DESCRIBED | {"training_log": str, "checkpoints": dict}
    _check_keys(path, f"method '{name}'", entry, {"splits": dict}, optional)
    check_described(f"{path}: method '{name}'", {key: entry[key] for key in DESCRIBED if key in entry})
    log = entry.get("training_log")
    return MethodSpec(
        name=name,
        label=entry.get("label", LABELS.get(name, name)),
        splits=_splits(path, f"method '{name}'", entry["splits"]),
        training_log=path.parent / log if log else None,
        checkpoints=_checkpoints(path, name, entry.get("checkpoints", {})),
        family=entry.get("family"),
        eta=entry.get("eta"),
    )


def _checkpoints(path: Path, name: str, entries: dict) -> dict[int, dict[str, SplitFiles]]:
    found = {}
    for step, entry in entries.items():
        what = f"checkpoint '{step}' of method '{name}'"
        if not (step.isascii() and step.isdigit()) or int(step) == 0 or int(step) in found:
            raise UserError(
                f"{path}: {what} is not named by its training step; name each by another number above 0, such as "
                '"40" (step 0 is the base).'
            )
        _check_keys(path, what, entry, {"splits": dict}, {})
        found[int(step)] = _splits(path, what, entry["splits"])
    return dict(sorted(found.items()))


def _splits(path: Path, of: str, entries: dict) -> dict[str, SplitFiles]:
    if not entries:
        raise UserError(f"{path}: {of} has no split; give at least one with its samples.")
    splits = {}
    for split, files in entries.items():
        _check_keys(path, f"split '{split}' of {of}", files, {"samples": str}, {"greedy": str})
        greedy = files.get("greedy")
        splits[split] = SplitFiles(path.parent / files["samples"], path.parent / greedy if greedy else None)
    return splits


def _check_keys(path: Path | str, what: str, entry: object, required: dict, optional: dict) -> None:
    """Allowed types by key: one, or a tuple of them."""
    if not isinstance(entry, dict):
        raise UserError(f"{path}: {what} must be a JSON object, not {entry!r}.")
    allowed = required | optional
    for key in required.keys() - entry.keys():
        raise UserError(f"{path}: {what} lacks '{key}'; it needs {', '.join(required)}.")
    for key, value in entry.items():
        if key not in allowed:
            raise UserError(f"{path}: {what} has the unknown key '{key}'; known are {', '.join(allowed)}.")
        types = allowed[key] if isinstance(allowed[key], tuple) else (allowed[key],)
        if type(value) not in types:
            names = " or ".join(kind.__name__ for kind in types)
            raise UserError(f"{path}: '{key}' of {what} must be a {names}, not {value!r}.")
