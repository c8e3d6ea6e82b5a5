"""Compose a program's configuration as the program itself does, but in a second, without importing verl."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import hydra
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from rl.common.errors import UserError
from rl.configuration import CONFIG_DIR, variables
from rl.configuration.names import EVALUATE, MAIN, PRESAMPLE, no_setting, quoted, verl_folder
from rl.configuration.programs import PROGRAMS
from rl.configuration.setting import settings_of

# Each program's file in CONFIG_DIR.
CONFIG_OF = {MAIN: "dph_trainer", PRESAMPLE: "presample", EVALUATE: "evaluate"}

_UNKNOWN_KEY = re.compile(r"Could not (?:override|delete from config)[: .']+(?P<key>[\w.]+)")

# The files of CONFIG_DIR use these resolvers, and include the settings' defaults.
variables.register()
for _name, _sections in PROGRAMS.items():
    _defaults = OmegaConf.create()
    for _setting in settings_of(_sections):
        OmegaConf.update(_defaults, _setting.key, _setting.default)
    ConfigStore.instance().store(f"{_name}_settings", _defaults)


def compose(config_name: str, overrides: Sequence[str] = (), folder: Path | None = None) -> DictConfig:
    """The configuration of `verl/dph/config/<config_name>.yaml` with overrides, as hydra.main composes it.

    Args:
        folder: another folder with the groups `experiment` and `method`, like Hydra's --config-dir.
    """
    searched = [f"file://{verl_folder() / 'trainer' / 'config'}"]
    searched += [f"file://{folder.resolve()}"] if folder else []
    places = f"[{','.join(map(quoted, searched))}]"
    with override_errors_explained(config_name):
        GlobalHydra.instance().clear()
        with initialize_config_dir(str(CONFIG_DIR), version_base=None):
            return hydra.compose(config_name, [f"hydra.searchpath={places}", *overrides])


@contextmanager
def override_errors_explained(config_name: str) -> Iterator[None]:
    """Turn Hydra's errors about the command line into UserErrors."""
    try:
        yield
    except HydraException as error:
        # Hydra would say how to add the key, which nothing would read.
        if unknown := _UNKNOWN_KEY.search(str(error)):
            raise UserError(no_setting(unknown["key"], [*variables.raw(compose(config_name))])) from error
        raise UserError(f"Hydra cannot compose the settings: {error}") from error


def check_additions(config: DictConfig, overrides: Sequence[str]) -> None:
    """Reject +KEY=VALUE with the abbreviated name of a setting, which would add a key that nothing reads.

    Args:
        config: the configuration composed with the overrides.
    """
    added = [word.lstrip("+").split("=")[0] for word in overrides if word.startswith("+")]
    if not added:
        return
    names = [name for name in variables.raw(config) if name not in added]
    for key in added:
        if any(name.endswith(f".{key}") for name in names):
            raise UserError(no_setting(key, names))
