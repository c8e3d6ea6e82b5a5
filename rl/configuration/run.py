"""The run that a launch script or `dph train` starts: its method, experiment, overrides, and composed configuration."""

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rl.configuration import compose, methods, variables
from rl.configuration.names import device_of, is_cpu, override_value
from rl.configuration.own_experiment import check_own_keys, check_taken
from rl.configuration.programs import PROGRAMS
from rl.configuration.setting import settings_of
from rl.configuration.settle import settle


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
        return self.method.launch["program"]

    @property
    def usage(self) -> str:
        words = f"{self.method.launch['arguments']} [--dry-run[=config]] [--help] [experiment=NAME] [KEY=VALUE ...]"
        return f"usage: {self.command} {words}"

    @cached_property
    def composed(self) -> DictConfig:
        """The program's configuration as Hydra composes it, unresolved and with the section `launch`."""
        config = compose.compose(compose.CONFIG_OF[self.program], self.overrides, self.folder)
        compose.check_additions(config, self.given)
        if self.folder:
            self._check_own(config)
        return config

    def _check_own(self, config: DictConfig) -> None:
        """Reject a user's experiment with settings that nothing reads, or in whose place there is another value."""
        base = next(part.name for part in self.experiment.parts if part in methods.files("experiment").values())
        composed = compose.compose(
            compose.CONFIG_OF[self.program], [f"experiment={base}", f"method={self.method.name}"]
        )
        # An experiment serves training too, whose settings another program does not have.
        known = {setting.key: True for sections in PROGRAMS.values() for setting in settings_of(sections)}
        check_own_keys(self.experiment, known | variables.raw(composed))
        # A method that prepares training has values of its own for some of its settings.
        prepares = self.method.launch["kind"] == methods.PREPARATION
        replaced = {*variables.raw(variables.merged([self.method]))} if prepares else set()
        given = {word.lstrip("+").partition("=")[0] for word in self.given}
        check_taken(self.experiment, config, self.method.name, given | replaced)

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
        return dict(variables.flat(OmegaConf.to_container(self.config, resolve=True)))

    @property
    def folder(self) -> Path | None:
        """The folder of a user's own experiment, for Hydra's --config-dir."""
        return self.experiment.path.parents[1] if self.experiment.is_own else None

    @property
    def device(self) -> str:
        return device_of(self.given)

    @property
    def overrides(self) -> list[str]:
        """The overrides that the program is started with."""
        return [
            f"experiment={override_value(self.experiment.name)}",
            f"method={self.method.name}",
            *([] if any(word.startswith("device=") for word in self.given) else [f"device={self.device}"]),
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
