"""Run Hydra programs with the YAML files of this folder: `python -m verl.dph.main`, presample and evaluate."""

import functools
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from rl.common.cli import as_shown, user_errors_exit
from rl.configuration import CONFIG_DIR
from rl.configuration.compose import CONFIG_OF, check_additions, override_errors_explained
from rl.configuration.settle import settle
from rl.configuration.variables import check_variables, forget_empty_variables
from verl.dph.config.device_choice import add_device, check_device


def chosen_experiment() -> str:
    """The experiment that this program runs with: a name of ours, or the path of a user's file; "" without one."""
    if not HydraConfig.initialized():
        return ""
    runtime = HydraConfig.get().runtime
    name = runtime.choices.get("experiment") or ""
    sources = [Path(source.path) for source in runtime.config_sources if source.schema == "file"]
    folders = [path / "experiment" for path in sources if path != CONFIG_DIR]
    own = [file for folder in folders if (file := folder / f"{name}.yaml").is_file()]
    return as_shown(own[0]) if own else name


def run_main(job: Callable, program: str) -> None:
    """Run `job(config)` as a Hydra program with the program's file of CONFIG_DIR and sys.argv's overrides.

    Without an argument `device` the program runs on the CPU if this machine has no GPU.

    Args:
        job: takes the composed omegaconf.DictConfig.
        program: the module, such as "verl.dph.main".
    """
    config_name = CONFIG_OF[program]
    sys.argv[1:] = add_device(sys.argv[1:])

    @functools.wraps(job)
    def guarded(config):
        with user_errors_exit(resumes=True):
            settle(config)
            check_additions(config, sys.argv[1:])
            check_device(OmegaConf.select(config, "trainer.device"))
            gc.freeze()  # full collections, one in two steps of the demo, would visit the imports' 500,000 objects
            job(config)

    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises its own and the job's errors, and prints neither
    with user_errors_exit(), override_errors_explained(config_name):
        if any(word.startswith("experiment=") for word in sys.argv[1:]):
            check_variables(os.environ)
        forget_empty_variables()
        hydra.main(config_path=str(CONFIG_DIR), config_name=config_name, version_base=None)(guarded)()
