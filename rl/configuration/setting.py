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

# A string in the annotation of a type says in an error what a value must be; without one, the type itself does.
Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
PositiveOrZero = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Path = Annotated[str, "a path"]
Paths = Annotated[str | list[str], "a path or a list of paths"]

# The default of a setting of verl's that we check and leave as it is.
VERLS = object()
MISSING: Any = "???"  # OmegaConf's word for a setting that a user has to give

_STRICT = ConfigDict(strict=True, allow_inf_nan=False)
_PLAIN = {NoneType: "null", bool: "True or False", int: "a whole number", float: "a number", str: "text"}
_PLAIN |= {list: "a list", dict: "a mapping"}


@dataclass(frozen=True)
class Setting:
    """A setting of a program.

    Attributes:
        key: its full name, such as data.sft_seed.
        type: what pydantic checks in strict mode: a bool is no number, a whole number is also a float, and a float is
            finite.
        default: a value as YAML has it, an interpolation (${...}), MISSING or VERLS.
        help: what it does; empty only for verl's settings that are checked and not changed.
        may_change: whether a run that is resumed may have another value.
    """

    key: str
    type: Any
    default: Any = VERLS
    help: str = ""
    may_change: bool = False

    def violation(self, value: Any) -> str | None:
        """The sentence for a value that the type does not allow; None if it does."""
        try:
            TypeAdapter(self.type, config=_STRICT).validate_python(value)
        except ValidationError:
            return f"{self.key}={value!r} {_rejection(self.type)}."
        return None


class Section:
    """A part of the configuration: a subclass has an annotated attribute per setting, and a string below it, its help.

    Args:
        at: the full name of the section.
        may_change: of all its settings.
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
        # An f-string takes its names from a table that the module imports.
        text = " ".join(eval(ast.unparse(below[name]), vars(sys.modules[section.__module__])).split())  # noqa: S307
        yield Setting(f"{section._at}.{name}", kind, getattr(section, name), text, section._may_change)


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """The classes of a module by their names, as written: Python keeps no string below an attribute."""
    body = ast.parse(inspect.getsource(sys.modules[module])).body
    return {statement.name: statement for statement in body if isinstance(statement, ast.ClassDef)}


def check(config: DictConfig, settings: Iterable[Setting]) -> None:
    """Check every setting that has a value; a missing one is an error of OmegaConf's when it is read.

    Raises:
        UserError: one line per wrong value, naming the setting, what was found and what it must be.
    """
    if found := [sentence for _, sentence in violations(config, settings)]:
        raise UserError("\n".join(found))


def violations(config: DictConfig, settings: Iterable[Setting]) -> Iterator[tuple[Setting, str]]:
    """Each setting with a wrong value, and the sentence for it."""
    for setting, value in _values(config, settings):
        if sentence := setting.violation(value):
            yield setting, sentence


def dataclass_fields(settings: Iterable[Setting], section: str) -> list[tuple[str, Any, DataclassField]]:
    """What dataclasses.make_dataclass takes for the settings directly below a section."""
    names = {setting.key.removeprefix(f"{section}."): setting.default for setting in settings}
    return [(name, Any, field(default=default)) for name, default in names.items() if "." not in name]


def _values(config: DictConfig, settings: Iterable[Setting]) -> Iterator[tuple[Setting, Any]]:
    for setting in settings:
        section, _, name = setting.key.rpartition(".")
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
    """The members of a union; of any other type, itself."""
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
    """What Field(ge=1) and the like add to "a number"."""
    limits = [limit for item in metadata for limit in item.metadata]
    bounds = {
        name: getattr(limit, name) for limit in limits for name in ("gt", "ge", "lt", "le") if hasattr(limit, name)
    }
    if {"ge", "le"} == bounds.keys():
        return f" from {bounds['ge']} to {bounds['le']}"
    forms = {"gt": " above {}", "ge": ", {} or more", "lt": ", below {}", "le": ", at most {}"}
    return "".join(form.format(bounds[name]) for name, form in forms.items() if name in bounds)
