"""The files of verl/dph/config: OmegaConf's resolvers, and the environment variables.

verl/dph/config/experiment/base/environment.yaml names every variable, each with oc.env. settle.py replaces what the
resolvers compute by its value.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rl.common.errors import UserError
from rl.configuration import CONFIG_DIR
from rl.configuration.methods import ConfigFile
from rl.configuration.names import CHECKOUT, devices, group, model_name
from rl.configuration.old_variables import REPLACED_BY

VARIABLE = re.compile(r"\$\{oc\.env:([A-Z_]+)")


def _paths(given: str | None, default: Any) -> list[str] | None:
    """The comma-separated files that a variable names, null if it is empty, or the default if it is not set."""
    return list(default) if given is None else given.split(",") if given else None


def _checkout() -> str:
    """The checkout's folder; the working folder if the package is installed without one."""
    return str(CHECKOUT if (CHECKOUT / "scripts").is_dir() else Path.cwd())


def _sum(*numbers: Any) -> Any:
    """The sum; or the first value that is not a number, so that the check of settings finds and names it."""
    words = [number for number in numbers if not isinstance(number, int)]
    return words[0] if words else sum(numbers)


_RESOLVERS: dict[str, Callable] = {
    "paths": _paths,
    "checkout": _checkout,
    "model_name": model_name,
    "group": group,
    "devices": devices,
    "trackers": lambda swanlab, wandb: ["console", "file", *["swanlab"] * bool(swanlab), *["wandb"] * bool(wandb)],
    "equal": lambda found, wanted, yes=True, no=False: yes if str(found) == str(wanted) else no,
    "sum": _sum,
    "cpus_at_least": lambda number: max(number, len(os.sched_getaffinity(0))),
    "quarter": lambda number: number // 4 if isinstance(number, int) else number,
}
# A value that needs one of them.
READ = re.compile(rf"\$\{{({'|'.join(_RESOLVERS)}|oc\.env):")


def register() -> None:
    """Register the resolvers with OmegaConf, before a configuration is composed or read."""
    forget_empty_variables()
    for name, resolver in _RESOLVERS.items():
        OmegaConf.register_new_resolver(name, resolver, replace=True)


@cache
def known_variables() -> tuple[str, ...]:
    """Every environment variable that a run reads."""
    text = (CONFIG_DIR / "experiment" / "base" / "environment.yaml").read_text()
    return ("DEVICE", *dict.fromkeys(VARIABLE.findall(text)))


def check_variables(environment: Mapping[str, str]) -> None:
    """Reject variables that decided a run once and no longer do."""
    sentences = [
        f"The environment variable {name} is not read any more: unset it, and give {key}={environment[name]} on the "
        "command line."
        for name, key in REPLACED_BY.items()
        if environment.get(name)
    ]
    if sentences:
        raise UserError("\n".join(sentences))


def forget_empty_variables() -> None:
    """An empty variable is one that is not set, apart from VAL_FILES, where it means that nothing is validated."""
    for name in known_variables():
        if name != "VAL_FILES" and os.environ.get(name) == "":
            del os.environ[name]


def merged(files: Iterable[ConfigFile]) -> DictConfig:
    """The settings of these files and of their `defaults`, without verl's. The first file with a setting decides."""
    register()
    parts = [part for file in files for part in file.parts]
    return OmegaConf.merge(*(part.content for part in reversed(parts)))  # type: ignore[return-value]


def flat(settings: Mapping, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (full name, value) of every setting of a nested configuration; lists and empty mappings count as values."""
    for name, value in settings.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def raw(config: DictConfig) -> dict[str, Any]:
    """Every setting by its full name, with unresolved interpolations."""
    return dict(flat(OmegaConf.to_container(config, resolve=False)))  # type: ignore[arg-type]
