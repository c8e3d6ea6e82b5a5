"""Environment variables in the configuration, as resolvers of OmegaConf.

    ${text:NAME,DEFAULT}            the variable as it stands; the default if it is unset or empty
    ${value:NAME,DEFAULT}           the variable read as YAML: a number, true, null, [a,b]
    ${files:NAME,DEFAULT}           comma-separated files, as a list
    ${files_or_none:NAME,DEFAULT}   the same, and null where the variable is set and empty

Experiments and methods (verl/dph/config) name each variable once, as the whole value of a key. The other resolvers
compute what follows from these settings. `settle` replaces all of them by their values.
"""

import os
import re
import sys
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf, open_dict

from rl.common.errors import UserError
from rl.configuration.names import CHECKOUT, group, model_name
from rl.configuration.nesting import flat

# What the launcher alone reads; no program sees it.
LAUNCH = "launch"
_TRACKERS = {"SWANLAB_API_KEY": "swanlab", "WANDB_API_KEY": "wandb"}

# A variable, as the whole value of a key.
VARIABLE = re.compile(r"\$\{(?:text|value|files|files_or_none):(?P<name>[A-Z][A-Z_]*),")
_RESOLVED_HERE = re.compile(
    r"\$\{(launch\.|(text|value|files|files_or_none|equal|sum|quarter|trackers|group|model_name):)"
)


def register() -> None:
    """Make the resolvers known to OmegaConf; needed before a configuration is composed or read."""
    resolvers = {
        "text": _text,
        "value": _value,
        "files": _files,
        "files_or_none": lambda name, default: None if os.environ.get(name) == "" else _files(name, default),
        "checkout": lambda: os.environ.get("PROJECT_DIR") or str(CHECKOUT),
        "interpreter": lambda: sys.executable,
        "model_name": model_name,
        "group": group,
        "trackers": lambda: ["console", "file", *(name for key, name in _TRACKERS.items() if os.environ.get(key))],
        "equal": lambda found, wanted, yes=True, no=False: yes if str(found) == str(wanted) else no,
        "sum": lambda *numbers: sum(_number(number) for number in numbers),
        "quarter": lambda number: _number(number) // 4,
    }
    for name, resolver in resolvers.items():
        OmegaConf.register_new_resolver(name, resolver, replace=True)


def _text(name: str, default: Any) -> Any:
    return os.environ.get(name) or default


def _value(name: str, default: Any) -> Any:
    text = os.environ.get(name)
    if not text:
        return default
    if text in ("null", "None", "none"):
        return None
    try:
        return OmegaConf.create(f"value: {text}").value
    except (yaml.YAMLError, AttributeError):
        return text


def _files(name: str, default: Any) -> list[str]:
    given = os.environ.get(name)
    if given:
        return given.split(",")
    return [default] if isinstance(default, str) else list(default)


def _number(value: Any) -> int:
    if isinstance(value, int):
        return value
    raise UserError(f"'{value}' is no whole number, and another setting follows from it.")


def raw(config: DictConfig) -> dict[str, Any]:
    """Every setting by its full name, interpolations as they are written."""
    return dict(flat(OmegaConf.to_container(config, resolve=False)))  # type: ignore[arg-type]


def variable_of(value: Any) -> str | None:
    """The environment variable that a setting, as raw() has it, is read from."""
    found = VARIABLE.match(value) if isinstance(value, str) else None
    return found["name"] if found else None


def settle(config: DictConfig) -> None:
    """Replace what depends on variables and on `launch` by its value, and leave `launch` out."""
    if LAUNCH not in config:
        return
    for key, value in raw(config).items():
        if not key.startswith(f"{LAUNCH}.") and _RESOLVED_HERE.search(str(value)):
            found = OmegaConf.select(config, key)
            OmegaConf.update(
                config, key, OmegaConf.to_container(found, resolve=True) if OmegaConf.is_config(found) else found
            )
    with open_dict(config):
        config.pop(LAUNCH)
