"""The report's specification: a JSON file with the samples files, training logs and texts of a report.

docs/reference/evaluation.md has an example. All other methods are compared with the model `base`. `base_again` is an
independent second draw of the base, the noise floor of the keep rate. Paths are relative to the file.
"""

import os
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

BASE = "base"
BASE_AGAIN = "base_again"
# A control shows where another method's gain comes from; one that learns from gold answers knows more than the others.
Role = Literal["control", "gold"]
CONTROL: Role = "control"
GOLD: Role = "gold"
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
    # Older specifications have it; it has no effect.
    rehearses: Annotated[bool | None, Field(exclude=True)] = None

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
    def noise_floor(self) -> str:
        """The model whose samples show what an unchanged model keeps: base_again if there is one, else base."""
        return BASE_AGAIN if BASE_AGAIN in self.methods else BASE

    @property
    def labels(self) -> dict[str, str]:
        return {name: method.label for name, method in self.methods.items()}

    @model_validator(mode="after")
    def _comparable(self) -> "ReportSpec":
        if BASE not in self.methods:
            raise ValueError(f"there is no method '{BASE}', which the others are compared with; add it")
        first = [name for name in (BASE, BASE_AGAIN) if name in self.methods]
        self.methods = {name: self.methods[name] for name in dict.fromkeys([*first, *self.methods])}
        if same := alike({split: split_name(split) for split in self.splits}):
            raise ValueError(f"splits {listed(same)} have one name in the report; rename one of them")
        for name, method in self.methods.items():
            method.label = method.label or LABELS.get(name, name)
            method.role = method.role or (role_of_run(method.training_log) if method.training_log else None)
            if method.splits.keys() != self.methods[BASE].splits.keys():
                raise ValueError(
                    f"method '{name}' has the splits {sorted(method.splits)} and '{BASE}' has {sorted(self.splits)}; "
                    "give every method the same splits"
                )
            for step, checkpoint in method.checkpoints.items():
                self._require_known(f"checkpoint {step} of method '{name}'", checkpoint.splits)
        if same := alike(self.labels):
            raise ValueError(f"methods {listed(same)} have one label; give one of them another")
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


def role_of_run(log: Path) -> Role | None:
    """The role of a method, as the newest checkpoint of its run records it; None without one.

    Responses from elsewhere are gold answers; a run with a divergence and without a policy loss is a control.

    Args:
        log: the run's training log: a file or a folder, in the run's folder or in a subfolder of it.
    """
    manifest = newest_manifest(log.parent) or newest_manifest(log.parent.parent) or {"settings": {}}
    actor = manifest["settings"].get("actor_rollout_ref", {}).get("actor", {})
    if (actor.get("sft_loss_mode") or "none") in ("none", "reverse_kl") or actor.get("sft_loss_coeff") == 0:
        return None
    if "responses" in (manifest.get("store") or {}):
        return GOLD
    return CONTROL if actor.get("policy_loss_coeff") == 0 else None


def split_name(split: str) -> str:
    """A benchmark's label; for another split its name in words: in_domain -> In domain."""
    return BENCHMARKS[split].label if split in BENCHMARKS else split.replace("_", " ").capitalize()


def alike(shown: Mapping[str, str]) -> list[str]:
    """The first keys that share a value, and would be one row or one table of a report."""
    by_value: dict[str, list[str]] = {}
    for name, value in shown.items():
        by_value.setdefault(value, []).append(name)
    return next((names for names in by_value.values() if len(names) > 1), [])


def specification(content: Mapping[str, Any], folder: Path) -> ReportSpec:
    """The specification with this content, whose paths are relative to `folder`."""
    try:
        return ReportSpec.model_validate(content, context=folder, strict=False)
    except ValidationError as error:
        raise UserError(f"The report's specification is invalid: {first_error(error)}.") from None


def read_spec(path: Path) -> ReportSpec:
    """Read and check a specification."""
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
    own = first["type"] == "value_error"
    said = str(first["ctx"]["error"]) if own else f"{first['msg']}, but it has {first['input']!r:.100}"
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), said)))
