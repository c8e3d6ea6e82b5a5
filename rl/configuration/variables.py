"""OmegaConf's resolvers that read environment variables in the configuration.

    ${text:NAME,DEFAULT}            the variable's text; the default if it is unset or empty
    ${value:NAME,DEFAULT}           the variable read as YAML: a number, true, null, [a,b]
    ${files:NAME,DEFAULT}           comma-separated files, as a list
    ${files_or_none:NAME,DEFAULT}   the same, but null if the variable is set and empty

Experiments and methods (verl/dph/config) name each variable once, as the whole value of a key. The other resolvers
compute values from these settings. settle.py replaces all of them with their values.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from rl.common.errors import UserError
from rl.configuration import CONFIG_DIR
from rl.configuration.methods import ConfigFile
from rl.configuration.names import CHECKOUT, READS_VARIABLE, group, model_name, no_setting
from rl.configuration.nesting import flat

_TRACKERS = {"SWANLAB_API_KEY": "swanlab", "WANDB_API_KEY": "wandb"}


def _text(name: str, default: Any) -> Any:
    return os.environ.get(name) or default


def _value(name: str, default: Any) -> Any:
    text = os.environ.get(name)
    if not text:
        return default
    if text in ("null", "None", "none"):
        return None
    if re.fullmatch(r"[+-]?0\d+", text):
        return int(text)  # YAML 1.1 reads 010 as 8
    try:
        return OmegaConf.create(f"value: {text}").value
    except (yaml.YAMLError, AttributeError):
        return text


def _files(name: str, default: Any) -> list[str]:
    given = os.environ.get(name)
    if given:
        return given.split(",")
    return [default] if isinstance(default, str) else list(default)


def _checkout() -> str:
    """The checkout's folder; the working folder if the package is installed without one."""
    return os.environ.get("DPH_PROJECT_DIR") or str(CHECKOUT if (CHECKOUT / "scripts").is_dir() else Path.cwd())


def _sum(*numbers: Any) -> Any:
    """The sum; or the first value that is not a number, so that the check of settings finds and names it."""
    words = [number for number in numbers if not isinstance(number, int)]
    return words[0] if words else sum(numbers)


_RESOLVERS: dict[str, Callable] = {
    "text": _text,
    "value": _value,
    "files": _files,
    "files_or_none": lambda name, default: None if os.environ.get(name) == "" else _files(name, default),
    "checkout": _checkout,
    "interpreter": lambda: sys.executable,
    "model_name": model_name,
    "group": group,
    "trackers": lambda: ["console", "file", *(name for key, name in _TRACKERS.items() if os.environ.get(key))],
    "equal": lambda found, wanted, yes=True, no=False: yes if str(found) == str(wanted) else no,
    "sum": _sum,
    "cpus_at_least": lambda number: max(number, len(os.sched_getaffinity(0))),
    "quarter": lambda number: number // 4 if isinstance(number, int) else number,
}
# A value that needs one of them.
READ = re.compile(rf"\$\{{({'|'.join(_RESOLVERS)}):")


def register() -> None:
    """Register the resolvers with OmegaConf, before a configuration is composed or read."""
    for name, resolver in _RESOLVERS.items():
        OmegaConf.register_new_resolver(name, resolver, replace=True)


def merged(files: Iterable[ConfigFile]) -> DictConfig:
    """The settings of these files and of their `defaults`, without verl's. The first file with a setting decides."""
    register()
    parts = [part for file in files for part in file.parts]
    return OmegaConf.merge(*(OmegaConf.create(part.content) for part in reversed(parts)))  # type: ignore[return-value]


def raw(config: DictConfig) -> dict[str, Any]:
    """Every setting by its full name, with unresolved interpolations."""
    return dict(flat(OmegaConf.to_container(config, resolve=False)))  # type: ignore[arg-type]


def variable_of(value: Any) -> str | None:
    """The environment variable from which a value of raw() is read, if any."""
    found = READS_VARIABLE.match(value) if isinstance(value, str) else None
    return found[1] if found else None


def check_own_keys(experiment: ConfigFile, known: Mapping[str, Any], below: str = "") -> None:
    """Reject settings of a user's experiment that nothing reads.

    Args:
        known: the full names and values of all settings. What stands below one without a value is not checked.
        below: the section that is checked, such as "launch."; "" for all.

    Raises:
        UserError: naming the file and the setting.
    """
    for part in experiment.parts:
        if part.path.is_relative_to(CONFIG_DIR):
            continue
        text = "\n".join(part.lines)
        for key, _ in flat(part.content):
            sections = key.split(".")
            above = (".".join(sections[:count]) for count in range(1, len(sections)))
            is_known = key in known or any(name in known and not known[name] for name in above)
            # A file may name a value of its own and refer to it.
            if key.startswith(below) and key != "defaults" and not is_known and f"${{{key}}}" not in text:
                raise UserError(
                    f"{part.path}: {no_setting(key, list(known))} What verl reads and its files lack goes on the "
                    "command line: +KEY=VALUE."
                )
