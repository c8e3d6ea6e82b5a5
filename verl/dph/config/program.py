"""Hydra programs on the YAML files of this folder: `python -m verl.dph.main`, presample and evaluate."""

import functools
from collections.abc import Callable
from pathlib import Path

import hydra

from rl.common.cli import user_errors_exit

CONFIG_DIR = Path(__file__).parent


def run_main(job: Callable, config_name: str) -> None:
    """Runs `job(config)` as a Hydra program with `verl/dph/config/<config_name>.yaml` and sys.argv's overrides.

    Args:
        job: takes the composed omegaconf.DictConfig; its module gives the program its name.
        config_name: a file of verl/dph/config, without `.yaml`.
    """

    @functools.wraps(job)
    def guarded(config):
        with user_errors_exit():
            job(config)

    hydra.main(config_path=str(CONFIG_DIR), config_name=config_name, version_base=None)(guarded)()
