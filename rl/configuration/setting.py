"""A setting: its name, type, default and meaning; and the check of a configuration against a table of them."""

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import Field as DataclassField
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from omegaconf import DictConfig, OmegaConf
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from rl.common.errors import UserError

# An error says what a value must be: in the words of a string in the annotation, or, without one, from the type.
Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
SEED_LIMIT = 2**32  # NumPy's
Seed = Annotated[int, Field(ge=0, lt=SEED_LIMIT)]
Positive = Annotated[float, Field(gt=0)]
PositiveOrZero = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, le=1)]
TopK = Annotated[Literal[-1] | Count, "a number of tokens, or -1 for all"]
Path = Annotated[str, "a path"]
Paths = Annotated[str | list[str], "a path or a list of paths"]

# Marks a setting of verl's that we check and whose default we keep.
VERLS = object()
MISSING: Any = "???"  # OmegaConf's mark of a setting that the user must give

_STRICT = ConfigDict(strict=True, allow_inf_nan=False)
_PLAIN = {NoneType: "null", bool: "True or False", int: "a whole number", float: "a number", str: "text"}
_PLAIN |= {list: "a list", dict: "a mapping"}


@dataclass(frozen=True)
class Setting:
    """A setting of a program.

    Attributes:
        key: its full name, such as data.sft_seed.
        type: the type that pydantic checks in strict mode: a bool is not a number, a whole number is also a float, and
            floats are finite.
        default: a value that YAML can write, an interpolation (${...}), MISSING or VERLS.
        help: what it does; empty only for verl's settings that are checked and not changed.
        may_change: whether a resumed run may have another value.
    """

    key: str
    type: Any
    default: Any = VERLS
    help: str = ""
    may_change: bool = False

    def violation(self, value: Any) -> str | None:
        """The error's sentence if the type does not allow the value, else None."""
        try:
            TypeAdapter(self.type, config=_STRICT).validate_python(value)
        except ValidationError:
            return f"{self.key}={value!r} {_rejection(self.type)}."
        # pydantic takes 1 for Literal[True], and a configuration does not: "1" is not "True".
        names = [name for part in _parts(self.type) if get_origin(part) is Literal for name in get_args(part)]
        if type(value) is int and any(isinstance(name, bool) for name in names):
            return f"{self.key}={value!r} {_rejection(self.type)}."
        return None


class Section:
    """A part of the configuration. A subclass has an annotated attribute per setting, with its help in a string below.

    Args:
        at: the full name of the section.
        may_change: Setting.may_change of all its settings.
    """

    _at: str
    _may_change: bool

    def __init_subclass__(cls, at: str, may_change: bool = False):
        cls._at, cls._may_change = at, may_change


def settings_of(*sections: type[Section]) -> tuple[Setting, ...]:
    """The settings of sections, in their order."""
    return tuple(setting for section in sections for setting in _settings(section))


def _settings(section: type[Section]) -> Iterator[Setting]:
    lines = pairwise(_classes(section.__module__)[section.__name__].body)
    below = {ast.unparse(line.target): text for line, text in lines if isinstance(line, ast.AnnAssign)}
    for name, kind in section.__annotations__.items():
        # The names in an f-string come from a table that the module imports.
        text = " ".join(eval(ast.unparse(below[name]), vars(sys.modules[section.__module__])).split())  # noqa: S307
        yield Setting(f"{section._at}.{name}", kind, getattr(section, name), text, section._may_change)


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """A module's classes by name, parsed from the source, because Python drops the strings below attributes."""
    body = ast.parse(inspect.getsource(sys.modules[module])).body
    return {statement.name: statement for statement in body if isinstance(statement, ast.ClassDef)}


def check(config: DictConfig, settings: Iterable[Setting]) -> None:
    """Check every setting that has a value. OmegaConf raises an error when a missing one is read.

    Raises:
        UserError: one line per wrong value, naming the setting, what was found and what it must be.
    """
    if found := [sentence for _, sentence in violations(config, settings)]:
        raise UserError("\n".join(found))


def violations(config: DictConfig, settings: Iterable[Setting]) -> Iterator[tuple[Setting, str]]:
    """Yield each setting that has a wrong value, with the error's sentence."""
    for setting, value in _values(config, settings):
        if sentence := setting.violation(value):
            yield setting, sentence


def dataclass_fields(settings: Iterable[Setting], section: str) -> list[tuple[str, Any, DataclassField]]:
    """The fields for dataclasses.make_dataclass from the settings directly below a section."""
    names = {setting.key.removeprefix(f"{section}."): setting.default for setting in settings}
    return [(name, Any, field(default=default)) for name, default in names.items() if "." not in name]


def _values(config: DictConfig, settings: Iterable[Setting]) -> Iterator[tuple[Setting, Any]]:
    for setting in settings:
        section, _, name = setting.key.rpartition(".")
        if not OmegaConf.is_config(OmegaConf.select(config, section)):
            raise UserError(f"{section} is null, and a section of settings: leave it out, or set {setting.key}.")
        if not OmegaConf.is_missing(OmegaConf.select(config, section), name):
            value = OmegaConf.select(config, setting.key)
            yield setting, OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def _rejection(kind: Any) -> str:
    parts = [get_args(part) for part in _parts(kind) if get_origin(part) is Literal]
    if len(parts) == len([part for part in _parts(kind) if part is not NoneType]):  # names alone
        names = [str(name) for part in parts for name in part] + ["null"] * (NoneType in _parts(kind))
        return f"is unknown: use one of {', '.join(names)}"
    return f"must be {_words(kind)}"


def _parts(kind: Any) -> Sequence[Any]:
    """The members of a union; for any other type, the type itself."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _words(kind: Any) -> str:
    if len(_parts(kind)) > 1:
        return ", or ".join(map(_words, _parts(kind)))
    origin = get_origin(kind)
    if origin is Literal:
        return ", or ".join(map(str, get_args(kind)))
    if origin is Annotated:
        base, *metadata = get_args(kind)
        texts = [text for text in metadata if isinstance(text, str)]
        return texts[0] if texts else _words(base) + _range(metadata)
    return _PLAIN[origin or kind]


def _range(metadata: Sequence[Any]) -> str:
    """The words that limits such as Field(ge=1) add to "a number"."""
    limits = [limit for item in metadata for limit in item.metadata]
    bounds = {
        name: getattr(limit, name) for limit in limits for name in ("gt", "ge", "lt", "le") if hasattr(limit, name)
    }
    if {"ge", "le"} == bounds.keys():
        return f" from {bounds['ge']} to {bounds['le']}"
    forms = {"gt": " above {}", "ge": ", {} or more", "lt": ", below {}", "le": ", at most {}"}
    return "".join(form.format(bounds[name]) for name, form in forms.items() if name in bounds)
