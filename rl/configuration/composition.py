"""Puts the settings' defaults into Hydra's ConfigStore when it is imported; the files of CONFIG_DIR include them."""

from hydra.core.config_store import ConfigStore

from rl.configuration import CONFIG_DIR
from rl.configuration.programs import PROGRAMS

__all__ = ["CONFIG_DIR"]

for _name, _program in PROGRAMS.items():
    ConfigStore.instance().store(f"{_name}_settings", _program.defaults())
