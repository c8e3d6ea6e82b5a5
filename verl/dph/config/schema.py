"""Schemas of single settings: their types and allowed values, for every program's check before it starts anything."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from rl.common.errors import UserError


@dataclass(frozen=True)
class Setting:
    """A setting's type and its allowed values.

    Attributes:
        key: where it stands in the configuration; `actor.` is short for `actor_rollout_ref.actor.`.
        types: the value's type is one of these; a bool is no number.
        allowed: called with a value of the right type.
        rejection: what the error says after KEY=VALUE.
        nullable: null is allowed too.
    """

    key: str
    types: tuple[type, ...]
    allowed: Callable[[Any], bool]
    rejection: str
    nullable: bool = False

    @property
    def path(self) -> str:
        return f"actor_rollout_ref.{self.key}" if self.key.startswith("actor.") else self.key

    def violations(self, config: DictConfig) -> Iterator[str]:
        value = OmegaConf.select(config, self.path)
        if value is None and self.nullable:
            return
        right_type = isinstance(value, self.types) and (bool in self.types or not isinstance(value, bool))
        if not right_type or not self.allowed(value):
            yield f"{self.path}={value!r} {self.rejection}."


def choice(key: str, *values: str) -> Setting:
    return Setting(key, (str,), values.__contains__, f"is unknown: use one of {', '.join(values)}")


def flag(key: str) -> Setting:
    return Setting(key, (bool,), lambda value: True, "must be True or False")


def whole(key: str, least: int, nullable: bool = False) -> Setting:
    return Setting(key, (int,), lambda value: value >= least, f"must be a whole number, {least} or more", nullable)


def paths(key: str, several: bool = False) -> Setting:
    """A path, several or null; that it is there is checked elsewhere."""
    types, wanted = ((str, ListConfig), "a path or a list of paths") if several else ((str,), "a path")
    return Setting(key, types, lambda value: all(isinstance(path, str) for path in value), f"must be {wanted}", True)


def number(key: str, allowed: Callable[[float], bool], wanted: str, nullable: bool = False) -> Setting:
    """A finite number."""
    return Setting(key, (int, float), lambda x: math.isfinite(x) and allowed(x), f"must be {wanted}", nullable)


_SCORER = "reward.custom_reward_function.reward_kwargs"

# What every program reads that scores responses.
SCORER = (
    Setting(
        f"{_SCORER}.scorer", (str, ListConfig), lambda value: True, "must be an address, or several", nullable=True
    ),
    number(f"{_SCORER}.timeout", lambda x: x > 0, "a number of seconds above 0"),
    whole(f"{_SCORER}.retries", 0),
    number(f"{_SCORER}.busy_limit", lambda x: x >= 0, "a number of seconds, 0 or more"),
)


def check_schema(config: DictConfig, schema: Iterable[Setting]) -> None:
    """Reject every value that the schema does not allow.

    Raises:
        UserError: one line per violation, naming the setting, what was found and what it must be.
    """
    violations = [sentence for setting in schema for sentence in setting.violations(config)]
    if violations:
        raise UserError("\n".join(violations))


def flat(settings: dict, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(full name, value) of every setting; a list and an empty mapping are values."""
    for name, value in settings.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
