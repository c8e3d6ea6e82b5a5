"""The report's specification: a JSON file with the samples files, training logs and texts of a report.

docs/reference/evaluation.md has an example. All other methods are compared with the model `base`. `base_again` is an
independent second draw of the base, the noise floor of the keep rate. Paths are relative to the file.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PositiveInt,
    SerializationInfo,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from rl.common import atomic_write
from rl.common.errors import UserError, file_errors
from rl.common.text import listed
from rl.data.benchmarks import BENCHMARKS
from rl.data.training_run import newest_manifest
from rl.metrics.pass_at_k import SOLVED_IN
from rl.metrics.styles import KNOWN_STYLES, OTHERS

_ETA = re.compile(r", (eta|η) [^,]*")

BASE = "base"
BASE_AGAIN = "base_again"
# A control shows where another method's gain comes from; one that learns from gold answers knows more than the others.
CONTROL, GOLD = "control", "gold"
Role = Literal["control", "gold"]
# A method that no checkpoint describes rehearses if its name begins with this.
REHEARSES = "dph"
LABELS = {
    "base": "Base",
    "base_again": "Base, second draw",
    "grpo": "GRPO",
    "dapo": "DAPO",
    "rkl": "RKL",
    "dph_f": "DPH-F",
    "dph_js": "DPH-JS",
}


def _below_folder(path: Path, info: ValidationInfo) -> Path:
    return info.context / path


def _from_folder(path: Path, info: SerializationInfo) -> str:
    return os.path.relpath(path.parent.resolve() / path.name, info.context)


RelativePath = Annotated[Path, AfterValidator(_below_folder), PlainSerializer(_from_folder)]
# One path, or a list of them.
RelativePaths = Annotated[
    list[RelativePath],
    BeforeValidator(lambda paths: [paths] if isinstance(paths, str | Path) else paths),
    Field(min_length=1),
]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class SplitFiles(_Entry):
    samples: RelativePath
    greedy: RelativePath | None = None


Splits = Annotated[dict[str, SplitFiles], Field(min_length=1)]


class Description(_Entry):
    """What a specification says about a method besides its samples."""

    label: str = ""
    family: str | None = None  # with eta, or neither
    eta: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    role: Role | None = None
    # Whether it learns from samples of the initial policy by a divergence; null: what the run's checkpoint says.
    rehearses: bool | None = None

    @model_validator(mode="after")
    def _family_with_eta(self) -> "Description":
        if (self.family is None) != (self.eta is None):
            raise ValueError("it has only one of 'family' and 'eta'; give both, or neither")
        return self


class Checkpoint(_Entry):
    splits: Splits


class MethodSpec(Description):
    splits: Splits
    training_log: RelativePath | None = None
    last_step: PositiveInt | None = None  # of the log: later ones are not the model's
    # By training step; step 0 is the base.
    checkpoints: dict[Annotated[str, Field(pattern="^[1-9][0-9]*$")], Checkpoint] = {}


class ReportSpec(_Entry):
    title: str
    summary: str
    methods: dict[str, MethodSpec]
    styles: list[str] = list(KNOWN_STYLES)  # empty: a task without styles
    # None: the prefix if the base's SQL has one, else the structure.
    styles_by: Literal["prefix", "structure", "opening"] | None = None
    questions: dict[str, RelativePaths] = {}  # by split, the data files with its questions
    groups: list[str] = []  # keys of the questions' extra_info (analysis/questions.py)
    solved_in: PositiveInt = SOLVED_IN
    caveats: list[str] = []
    settings: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    commands: list[str] = []  # that made the run

    @property
    def splits(self) -> list[str]:
        return list(self.methods[BASE].splits)

    @property
    def trained(self) -> list[str]:
        return [name for name in self.methods if name not in (BASE, BASE_AGAIN)]

    @property
    def rehearsing(self) -> list[str]:
        return [name for name in self.trained if self.methods[name].rehearses]

    @property
    def noise_floor(self) -> str:
        """The model whose samples show what an unchanged model keeps: base_again if there is one, else base."""
        return BASE_AGAIN if BASE_AGAIN in self.methods else BASE

    @property
    def short_names(self) -> dict[str, str]:
        """{method: short name}: "DPH-JS" for "DPH-JS generator, eta 0.2", unless two methods would have the same.

        Only eta is left out of a label, and what follows the name of a method in LABELS.
        """
        short = {}
        for name, method in self.methods.items():
            known = LABELS.get(name)
            short[name] = known if known and method.label.startswith(known) else _ETA.sub("", method.label)
        names = list(short.values())
        return {name: of if names.count(of) == 1 else self.methods[name].label for name, of in short.items()}

    @model_validator(mode="after")
    def _comparable(self) -> "ReportSpec":
        if BASE not in self.methods:
            raise ValueError(f"there is no method '{BASE}', which the others are compared with; add it")
        first = [name for name in (BASE, BASE_AGAIN) if name in self.methods]
        self.methods = {name: self.methods[name] for name in dict.fromkeys([*first, *self.methods])}
        if alike := with_one_name(self.splits):
            raise ValueError(f"splits {listed(alike)} have one name in the report; rename one of them")
        for name, method in self.methods.items():
            method.label = method.label or LABELS.get(name, name)
            of_run = method_of_run(method.training_log) if method.training_log else {}
            if method.rehearses is None:
                method.rehearses = of_run.get("rehearses", name.startswith(REHEARSES))
                method.role = method.role or of_run.get("role")
            if method.splits.keys() != self.methods[BASE].splits.keys():
                raise ValueError(
                    f"method '{name}' has the splits {sorted(method.splits)} and '{BASE}' has {sorted(self.splits)}; "
                    "give every method the same splits"
                )
            for step, checkpoint in method.checkpoints.items():
                self._require_known(f"checkpoint {step} of method '{name}'", checkpoint.splits)
        if alike := with_one_label({name: method.label for name, method in self.methods.items()}):
            raise ValueError(f"methods {listed(alike)} have one label; give one of them another")
        if len({*self.styles, OTHERS}) <= len(self.styles):
            raise ValueError(f"styles {self.styles} has a name twice, or '{OTHERS}', the name of the rest; remove it")
        self._require_known("questions", self.questions)
        if self.groups and not self.questions:
            raise ValueError("groups are read from the data files of the questions; give 'questions' too")
        return self

    def write(self, path: Path) -> None:
        """Write the file; its paths are relative to its folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = self.model_dump_json(indent=2, exclude_defaults=True, context=path.parent.resolve())
        atomic_write.write_text(path, text + "\n")

    def _require_known(self, what: str, splits: Iterable[str]) -> None:
        if unknown := sorted(set(splits) - set(self.splits)):
            raise ValueError(
                f"{what} has the split '{unknown[0]}', which is not one of the report's ({', '.join(self.splits)}); "
                "correct its name, or remove it"
            )


def method_of_run(log: Path) -> dict[str, Any]:
    """ "rehearses" and "role" of a method, as the newest checkpoint of its run records it; empty without one.

    A run rehearses if it learns from rewards and, by a divergence, from samples of the initial policy. The reverse KL
    is of the policy's own samples. Responses from elsewhere are gold answers; a run without a policy loss is a control.

    Args:
        log: the run's training log: a file or a folder, in the run's folder or in a subfolder of it.

    Raises:
        UserError: the checkpoint's manifest is damaged.
    """
    manifest = newest_manifest(log.parent) or newest_manifest(log.parent.parent)
    if manifest is None:
        return {}
    actor = manifest["settings"].get("actor_rollout_ref", {}).get("actor", {})
    mode = actor.get("sft_loss_mode") or "none"
    if mode in ("none", "reverse_kl") or actor.get("sft_loss_coeff") == 0:
        return {"rehearses": False}
    if "responses" in (manifest.get("store") or {}):
        return {"rehearses": False, "role": GOLD}
    if actor.get("policy_loss_coeff") == 0:
        return {"rehearses": False, "role": CONTROL}
    return {"rehearses": True}


def with_one_label(labels: Mapping[str, str]) -> list[str]:
    """The first methods that share a label, and would be one row of a table; empty if all labels differ.

    Args:
        labels: by method; "" is the default.
    """
    return _alike({name: label or LABELS.get(name, name) for name, label in labels.items()})


def split_name(split: str) -> str:
    """A benchmark's label; for another split its name in words: in_domain -> In domain."""
    return BENCHMARKS[split].label if split in BENCHMARKS else split.replace("_", " ").capitalize()


def with_one_name(splits: Iterable[str]) -> list[str]:
    """The first splits that share a split_name, and would be one table; empty if all names differ."""
    return _alike({split: split_name(split) for split in splits})


def _alike(shown: Mapping[str, str]) -> list[str]:
    """The first keys that share a value."""
    by_value: dict[str, list[str]] = {}
    for name, value in shown.items():
        by_value.setdefault(value, []).append(name)
    return next((names for names in by_value.values() if len(names) > 1), [])


def specification(content: Mapping[str, Any], folder: Path) -> ReportSpec:
    """The specification with this content, whose paths are relative to `folder`.

    Raises:
        UserError: the content is invalid; the message names the key.
    """
    try:
        return ReportSpec.model_validate(content, context=folder, strict=False)
    except ValidationError as error:
        raise UserError(f"The report's specification is invalid: {first_error(error)}.") from None


def read_spec(path: Path) -> ReportSpec:
    """Read and check a specification.

    Raises:
        UserError: the file cannot be read, or is invalid; the message names the key.
    """
    with file_errors(f"The report's specification {path}", "read"):
        text = path.read_bytes()
    try:
        return ReportSpec.model_validate_json(text, context=path.parent)
    except ValidationError as error:
        raise UserError(f"The report's specification {path} is invalid: {first_error(error)}.") from None


def check_description(where: str, entry: object) -> None:
    """Check a method's label, family and eta.

    Raises:
        UserError: an unknown key, a wrong value, or only one of family and eta; the message begins with `where`.
    """
    try:
        Description.model_validate(entry)
    except ValidationError as error:
        raise UserError(f"{where} is invalid: {first_error(error)}.") from None


def first_error(error: ValidationError) -> str:
    """The first error and its key, as a part of a sentence."""
    first = error.errors(include_url=False)[0]
    key = ".".join(map(str, first["loc"]))
    of_key = f"{key}: " if key else ""
    match first["type"]:
        case "missing":
            return f"{key} is missing"
        case "extra_forbidden" | "unexpected_keyword_argument":
            return f"the key {key} is unknown"
        case "value_error":
            return of_key + str(first["ctx"]["error"])
        case "json_invalid":
            return f"it is not JSON ({first['ctx']['error']})"
    return f"{of_key}{first['msg']}, not {first['input']!r:.100}"
