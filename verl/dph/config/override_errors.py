"""Mistyped overrides of our Hydra programs: one sentence with the nearest settings in place of Hydra's text."""

import difflib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from rl.common.errors import UserError
from rl.configuration.nesting import flat

_UNKNOWN_KEY = re.compile(r"Could not (?:override|delete from config)[: .']+(?P<key>[\w.]+)")
_UNKNOWN_OPTION = re.compile(
    r"Could not find '(?P<group>.+)/(?P<found>.+)'\s+Available options in '.+':\n(?P<options>(?:\t.+\n?)+)"
)
_SHOWN = 3


@contextmanager
def override_errors_explained(config_dir: str, config_name: str) -> Iterator[None]:
    """Turn Hydra's errors about the command line into UserErrors; Hydra itself would print them and exit with 1."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # it raises its errors, and those of the job
    try:
        yield
    except HydraException as error:
        raise UserError(explain(str(error), config_dir, config_name)) from error


def explain(error: str, config_dir: str, config_name: str) -> str:
    """One sentence for the text of a Hydra error."""
    if unknown := _UNKNOWN_KEY.search(error):
        return _no_setting(unknown["key"], settings_of(config_dir, config_name))
    if option := _UNKNOWN_OPTION.search(error):
        return f"{option['group']}={option['found']} is unknown: use one of {', '.join(option['options'].split())}."
    said = [line.strip() for line in error.splitlines() if line.strip() and not line.startswith("See ")]
    return f"The command line cannot be read: {'; '.join(said)}. Give KEY=VALUE; quote a value with , = or [ in it."


def check_additions(config: DictConfig, overrides: Sequence[str]) -> None:
    """Reject +KEY=VALUE with the abbreviated name of a setting: it would add a key that nothing reads.

    Args:
        config: composed with the overrides.
    """
    added = [word.lstrip("+").split("=")[0] for word in overrides if word.startswith("+")]
    names = [name for name, _ in flat(OmegaConf.to_container(config)) if name not in added]
    for key in added:
        if any(name.endswith(f".{key}") for name in names):
            raise UserError(_no_setting(key, names))


def settings_of(config_dir: str, config_name: str) -> list[str]:
    """The full names of all settings of a program."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(config_dir, version_base=None):
        return [name for name, _ in flat(OmegaConf.to_container(compose(config_name)))]


def _no_setting(key: str, names: Sequence[str]) -> str:
    if full := [name for name in names if name.endswith(f".{key}")]:
        return f"{key} is no setting: its full name is {' or '.join(full[:_SHOWN])}."
    by_end = {name.split(".")[-1]: name for name in names}
    near = difflib.get_close_matches(key, names, n=_SHOWN)
    near = near or [by_end[end] for end in difflib.get_close_matches(key.split(".")[-1], by_end, n=_SHOWN)]
    hint = f"did you mean {' or '.join(near)}?" if near else "--help lists the program's own, --help-all verl's too."
    return f"{key} is no setting: {hint}"
