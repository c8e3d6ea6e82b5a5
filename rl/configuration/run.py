"""The run that a launch script or `dph train` starts: its method, experiment, overrides, and composed configuration."""

import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rl.common.errors import UserError
from rl.configuration import CONFIG_DIR, compose, methods, variables
from rl.configuration.names import MAIN, READS_VARIABLE, devices, has_gpu, is_cpu, joins_ray, named_device
from rl.configuration.nesting import flat
from rl.configuration.settle import settle

# Settings that the launcher always sets, and the variables that decide them.
LAUNCHED = {"trainer.nnodes": "NNODES", "trainer.n_gpus_per_node": "GPUS_PER_NODE"}


@dataclass(frozen=True)
class Run:
    """A run as a launch script starts it.

    Attributes:
        command: what starts it, such as "bash scripts/llama/js_kl.sh" or "dph train js_kl".
        method, experiment: their files.
        given: overrides of the command line, without the method and the experiment; the last one of a key counts.
        dry_run: "command" or "config" to print it, "" to start the run.
        help: whether the user asks only for the help.
    """

    command: str
    method: methods.ConfigFile
    experiment: methods.ConfigFile
    given: list[str] = field(default_factory=list)
    dry_run: str = ""
    help: bool = False

    @property
    def program(self) -> str:
        return self.method.program

    @property
    def usage(self) -> str:
        words = " ".join(self.method.arguments)
        return f"usage: {self.command} {words} [--dry-run[=config]] [--help] [KEY=VALUE ...]"

    @cached_property
    def composed(self) -> DictConfig:
        """The program's configuration as Hydra composes it, unresolved and with the section `launch`."""
        config = compose.compose(compose.CONFIG_OF[self.program], self.overrides, self.folder)
        compose.check_additions(config, self.given)
        if self.folder:
            self._check_own_files()
            self._check_replaced(config)
        return config

    def _check_own_files(self) -> None:
        """Reject settings of a user's experiment that nothing reads."""
        ours = methods.files("experiment").values()
        base = next((part.name for part in self.experiment.parts if part in ours), methods.DEFAULT_EXPERIMENT)
        known: dict[str, Any] = {}
        # An experiment serves training too, whose settings another program lacks.
        for name, method in ((compose.CONFIG_OF[MAIN], "grpo"), (compose.CONFIG_OF[self.program], self.method.name)):
            composed = compose.compose(name, [f"experiment={base}", f"method={method}"])
            known |= flat(OmegaConf.to_container(composed))
        variables.check_own_keys(self.experiment, known)

    def _check_replaced(self, config: DictConfig) -> None:
        """Reject values of a user's experiment in whose place the method's file or the launcher has another one."""
        own, composed = variables.raw(variables.merged([self.experiment])), variables.raw(config)
        replaced = {*LAUNCHED}
        # An experiment serves training too, in which a method that prepares it has no part.
        if self.method.launch["kind"] != methods.PREPARATION:
            replaced |= variables.raw(variables.merged([self.method])).keys()
        # What the user's file has from one of ours, copied or by its defaults, is replaced on purpose.
        ours = next((part for part in self.experiment.parts if part.path.is_relative_to(CONFIG_DIR)), None)
        copied = variables.raw(variables.merged([ours])) if ours else {}
        for key in sorted(own.keys() & replaced - self.given_keys - {"defaults"}):
            if own[key] not in (composed[key], copied.get(key)):
                instead = f"set {LAUNCHED[key]}" if key in LAUNCHED else f"give {key}=VALUE on the command line"
                raise UserError(
                    f"{self.experiment.path}: {key}={own[key]} changes nothing, because {self.method.name} runs with "
                    f"{OmegaConf.select(config, key)}: leave it out and {instead}."
                )

    @property
    def launch(self) -> DictConfig:
        return self.composed.launch

    @cached_property
    def config(self) -> DictConfig:
        """The program's configuration as the program sees it."""
        config = self.composed.copy()
        settle(config)
        return config

    @cached_property
    def values(self) -> dict[str, Any]:
        """Every setting of `config` by its full name, resolved."""
        return dict(flat(OmegaConf.to_container(self.config, resolve=True)))

    @property
    def folder(self) -> Path | None:
        """The folder of a user's own experiment, for Hydra's --config-dir."""
        path = self.experiment.path
        return None if path.is_relative_to(CONFIG_DIR) else path.parents[1]

    @property
    def given_keys(self) -> set[str]:
        return {word.lstrip("+").partition("=")[0] for word in self.given}

    @property
    def named_device(self) -> str:
        return named_device(self.given)

    @property
    def found_no_gpu(self) -> bool:
        """Whether the run is on the CPU because has_gpu finds none."""
        return not self.named_device and is_cpu(self.device)

    @property
    def device(self) -> str:
        """The file of verl/dph/config/device: the named one, else the CPU's if this machine has no NVIDIA GPU and the
        run joins no Ray."""
        return self.named_device or ("cuda" if has_gpu() or joins_ray() else "cpu")

    @property
    def overrides(self) -> list[str]:
        """The overrides that the program is started with."""
        nodes, gpus = _count("NNODES", 1), _count("GPUS_PER_NODE", devices(self.device))
        scoring = _count("SCORER_NODES", 0)
        if nodes < 1:
            raise UserError("NNODES is 0: this node counts too, so give 1 or more.")
        if scoring >= nodes:
            raise UserError(f"SCORER_NODES={scoring} of NNODES={nodes} leave no node to train on: lower SCORER_NODES.")
        return [
            f"experiment={self.experiment.name}",
            f"method={self.method.name}",
            *([] if any(word.startswith("device=") for word in self.given) else [f"device={self.device}"]),
            f"trainer.nnodes={nodes - scoring}",
            f"trainer.n_gpus_per_node={gpus}",
            *self.given,
        ]

    @property
    def words(self) -> list[str]:
        """The program's command line after the interpreter."""
        folder = ["--config-dir", str(self.folder)] if self.folder else []
        # Hydra wants all overrides on one side of its options.
        return ["-m", self.program, *folder, *self.overrides]

    @property
    def environment(self) -> dict[str, str]:
        """Variables that the launcher sets for the program."""
        found = {"DPH_SCORER": os.environ["DPH_SCORER"]} if os.environ.get("DPH_SCORER") else {}
        if is_cpu(self.device):
            # Two busy processes are faster with one thread each than with two.
            found |= {"VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        return found

    def parts(self) -> list[methods.ConfigFile]:
        """The files that have the run's settings: the method's, then the experiment's."""
        return list({part.path: part for part in [*self.method.parts, *self.experiment.parts]}.values())

    def settings_of_files(self) -> DictConfig:
        """The settings of these files alone, without verl's and without the command line."""
        return variables.merged([self.method, self.experiment])

    def variables(self) -> list[str]:
        """The environment variables that these files read."""
        return list(dict.fromkeys(name for part in self.parts() for name in part.variables()))

    def variables_in_effect(self) -> set[str]:
        """Those of them that decide a value, because no file that comes first has a value of its own."""
        values = (value for value in variables.raw(self.settings_of_files()).values() if isinstance(value, str))
        return {name for value in values for name in READS_VARIABLE.findall(value)}


def _count(name: str, default: int) -> int:
    text = os.environ.get(name) or str(default)
    if not re.fullmatch("0|[1-9][0-9]{0,8}", text):
        raise UserError(f"{name} is '{text}': give a whole number.")
    return int(text)
