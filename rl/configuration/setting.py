"""Tables of settings: a pydantic model for each section of the configuration, and the check against them."""

from collections.abc import Iterable, Iterator
from dataclasses import Field as DataclassField
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rl.common.errors import UserError

Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
SEED_LIMIT = 2**32  # NumPy's
Seed = Annotated[int, Field(ge=0, lt=SEED_LIMIT)]
Positive = Annotated[float, Field(gt=0)]
PositiveOrZero = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, le=1)]
TopK = Literal[-1] | Count
# settle.py finds the settings of this type by the format.
Path = Annotated[str, Field(json_schema_extra={"format": "path"})]
Paths = Path | list[Path]

MISSING: Any = "???"  # OmegaConf's mark of a setting that the user must give


class Section(BaseModel):
    """Settings of one section of the configuration. A field's name, type, default and docstring are the setting's.

    A field without a default is verl's: its value is checked, and verl's default stays. Types are strict: a bool is not
    a number, a whole number is also a float, and floats are finite.

    Args:
        at: the section's full name, such as data.
        may_change: whether a resumed run may have other values.
    """

    model_config = ConfigDict(strict=True, allow_inf_nan=False, use_attribute_docstrings=True)
    at: ClassVar[str]
    may_change: ClassVar[bool]

    def __init_subclass__(cls, at: str, may_change: bool = False):
        super().__init_subclass__()
        cls.at, cls.may_change = at, may_change

    @classmethod
    def paths(cls) -> list[str]:
        """The full names of the settings that are paths."""
        fields = cls.model_json_schema()["properties"]
        return [f"{cls.at}.{name}" for name, field in fields.items() if "'format': 'path'" in str(field)]


@dataclass(frozen=True)
class Setting:
    """A setting that is added to verl's, or has another default than verl's."""

    key: str
    default: Any
    help: str


def settings_of(sections: Iterable[type[Section]]) -> list[Setting]:
    """The settings of sections, without verl's."""
    return [
        Setting(f"{section.at}.{name}", field.default, " ".join((field.description or "").split()))
        for section in sections
        for name, field in section.model_fields.items()
        if not field.is_required()
    ]


def violations(config: DictConfig, section: type[Section]) -> Iterator[tuple[str, str]]:
    """Check every setting of a section that has a value. OmegaConf raises an error when a missing one is read.

    Yields:
        The full name of a setting with a wrong value; a sentence with what was found and what it must be.
    """
    values = OmegaConf.select(config, section.at)
    if not OmegaConf.is_config(values):
        first = next(iter(section.model_fields))
        raise UserError(f"{section.at} is null, and a section of settings: leave it out, or set {section.at}.{first}.")
    given = {name: values[name] for name in section.model_fields if name in values}
    given |= {name: OmegaConf.to_container(of, resolve=True) for name, of in given.items() if OmegaConf.is_config(of)}
    wrong: dict[str, dict[str, None]] = {}
    try:
        section.model_validate(given)
    except ValidationError as error:
        for found in error.errors():
            if found["type"] != "missing":
                name, said = str(found["loc"][0]), found["msg"].removeprefix("Input should be ")
                wrong.setdefault(name, {})[said] = None
    for name, said_of in wrong.items():
        yield f"{section.at}.{name}", f"{section.at}.{name}={given[name]!r} must be {', or '.join(said_of)}."


def dataclass_fields(*sections: type[Section]) -> list[tuple[str, Any, DataclassField]]:
    """The sections' settings as fields for dataclasses.make_dataclass."""
    return [
        (name, Any, field(default=found.default))
        for section in sections
        for name, found in section.model_fields.items()
    ]
