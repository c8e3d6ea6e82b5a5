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
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, ListConfig, Node, OmegaConf, open_dict

from rl.common.errors import UserError

CHECKOUT = Path(__file__).resolve().parents[2]
# What the launcher alone reads; no program sees it.
LAUNCH = "launch"
# The paper's names of folders and projects, by model.
_PAPER_FOLDERS = {"llama-3.1-8b-instruct": "llama3.1-8b"}
_PAPER_GROUPS = {"llama-3.1-8b-instruct": "llama", "omnisql-32b": "omnisql", "qwen2.5-math-7b": "qwen"}
_TRACKERS = {"SWANLAB_API_KEY": "swanlab", "WANDB_API_KEY": "wandb"}
_AS_NEAR = 0.85

# A variable, as the whole value of a key.
VARIABLE = re.compile(r"\$\{(?:text|value|files|files_or_none):(?P<name>[A-Z][A-Z_]*),")
_RESOLVED_HERE = re.compile(r"\$\{(launch\.|(text|value|files|files_or_none|equal|sum|quarter|trackers|group|model_name):)")


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
        "group": lambda model, task: f"{_PAPER_GROUPS.get(_last_part(model), model_name(model))}-{task}",
        "trackers": lambda: ["console", "file", *(name for key, name in _TRACKERS.items() if os.environ.get(key))],
        "equal": lambda found, wanted, yes=True, no=False: yes if str(found) == str(wanted) else no,
        "sum": lambda *numbers: sum(_number(number) for number in numbers),
        "quarter": lambda number: _number(number) // 4,
    }
    for name, resolver in resolvers.items():
        OmegaConf.register_new_resolver(name, resolver, replace=True)


def model_name(model: str) -> str:
    """What the folders of a model's data are named after."""
    name = _last_part(model)
    return _PAPER_FOLDERS.get(name, name)


def _last_part(model: str) -> str:
    return str(model).rstrip("/").rpartition("/")[2].lower()


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


def variable_of(config: DictConfig, key: str) -> str | None:
    """The environment variable that gives a key its value; None if an override or a default does."""
    section, _, name = key.rpartition(".")
    holder = OmegaConf.select(config, section) if section else config
    node = holder._get_node(name) if isinstance(holder, DictConfig) else None
    found = VARIABLE.match(str(node._value())) if isinstance(node, Node) else None
    return found["name"] if found and os.environ.get(found["name"]) else None


def settle(config: DictConfig) -> None:
    """Replace what depends on variables and on `launch` by its value, and leave `launch` out."""
    if LAUNCH not in config:
        return
    for holder, key in list(_leaves(config)):
        text = holder._get_node(key)._value()
        if isinstance(text, str) and _RESOLVED_HERE.search(text):
            value = holder[key]
            holder[key] = list(value) if isinstance(value, ListConfig) else value
    with open_dict(config):
        config.pop(LAUNCH)


def _leaves(config: DictConfig) -> Iterator[tuple[DictConfig, str]]:
    for key in config:
        node = config._get_node(key)
        if isinstance(node, DictConfig) and not node._is_interpolation() and not node._is_none():
            if not node._is_missing():
                yield from _leaves(node)
        else:
            yield config, str(key)


def misspelt(environment: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """A sentence for each variable that is nearly the name of a setting."""
    known = set(known)
    for name in sorted(set(environment) - known):
        if near := get_close_matches(name, known, 1, _AS_NEAR):
            yield f"{name} is no setting; did you mean {near[0]}?"

