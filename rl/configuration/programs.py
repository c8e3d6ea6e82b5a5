"""The programs that Hydra configures, their settings, and their usage."""

from dataclasses import dataclass

from omegaconf import DictConfig, OmegaConf

from rl.configuration.evaluate import Evaluate
from rl.configuration.sampling import PRESAMPLE, SAMPLING
from rl.configuration.scorer import SCORER
from rl.configuration.setting import Section, Setting, settings_of
from rl.configuration.training import TRAINING


@dataclass(frozen=True)
class Program:
    """A program of verl.dph; it checks all settings of `sections`."""

    description: str
    sections: tuple[type[Section], ...]

    def changed(self) -> list[Setting]:
        """The settings that the program adds to verl's, and those whose default it changes."""
        return settings_of(self.sections)

    def defaults(self) -> DictConfig:
        """The values that its configuration has in place of verl's."""
        found = OmegaConf.create()
        for setting in self.changed():
            OmegaConf.update(found, setting.key, setting.default)
        return found


# The programs by the names of their files in verl/dph/config.
PROGRAMS = {
    "dph_trainer": Program("Train.", (*TRAINING, *SCORER)),
    "presample": Program(
        "Pre-sample. It reads verl's settings of the model, the rollout, the data and the trainer's sizes.",
        (*PRESAMPLE, *SCORER),
    ),
    "evaluate": Program(
        "Evaluate models. It reads verl's settings of the rollout, the data and the trainer's sizes.",
        (Evaluate, *SAMPLING, *SCORER),
    ),
}


def usage(command: str, config: str) -> str:
    """The help of a program.

    Args:
        command: the command that starts it.
        config: a name of PROGRAMS.
    """
    return (
        f"usage: {command} [KEY=VALUE ...] [--cfg job [--resolve]] [--help]\n\n{PROGRAMS[config].description}\n\n"
        "docs/reference/settings.md has the settings; --cfg job prints all of them, verl's too, with their values.\n"
    )
