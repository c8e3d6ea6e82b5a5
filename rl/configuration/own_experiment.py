"""Checks of a user's own experiment: that Hydra takes every one of its settings."""

from collections.abc import Iterable, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rl.common.errors import UserError
from rl.configuration.methods import ConfigFile
from rl.configuration.names import no_setting
from rl.configuration.variables import raw


def check_own_keys(experiment: ConfigFile, known: Mapping[str, Any], below: str = "") -> None:
    """Reject settings of a user's experiment that nothing reads.

    Args:
        known: the full names and values of all settings. What stands below one without a value is not checked.
        below: the section that is checked, such as "launch."; "" for all.
    """
    for part in (part for part in experiment.parts if part.is_own):
        for key in raw(part.content):
            sections = key.split(".")
            above = (".".join(sections[:count]) for count in range(1, len(sections)))
            is_known = key in known or any(name in known and not known[name] for name in above)
            # A file may name a value of its own and refer to it.
            if key.startswith(below) and key != "defaults" and not is_known and f"${{{key}}}" not in part.text:
                raise UserError(
                    f"{part.path}: {no_setting(key, list(known))} What verl reads and its files lack goes on the "
                    "command line: +KEY=VALUE."
                )


def check_taken(experiment: ConfigFile, config: DictConfig, method: str, given: Iterable[str]) -> None:
    """Reject a user's experiment with a setting that is not in the composed configuration.

    Args:
        config: composed, unresolved.
        given: the full names of the settings that the command line decides.
    """
    if "experiment" in config:
        raise UserError(
            f"{experiment.path} does not begin with the line `# @package _global_`, so that nothing would read it: put "
            "it first."
        )
    composed = raw(config)
    own = {key: value for key, value in raw(experiment.content).items() if key != "defaults"}
    for key in sorted(own.keys() - {*given}):
        if composed.get(key) != own[key]:
            raise UserError(
                f"{experiment.path}: {key}={own[key]} changes nothing, because {method} runs with "
                f"{OmegaConf.select(config, key)}: give {key}=VALUE on the command line, and put _self_ last below "
                "`defaults`."
            )
