"""Methods and experiments, read from the files of verl/dph/config/method and verl/dph/config/experiment."""

import shlex
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from rl.common.errors import UserError
from rl.configuration import CONFIG_DIR

if TYPE_CHECKING:
    from omegaconf import DictConfig

# Folders of scripts/, and the experiment that their scripts run unless experiment= names another.
FOLDERS = {"llama": "llama_sql", "qwen": "qwen_math"}
DEFAULT_EXPERIMENT = FOLDERS["llama"]

PAPER, EXTENSION, BASELINE, PREPARATION = "paper", "extension", "baseline", "preparation"
# The kinds of methods that train, with their headings.
KINDS = {
    EXTENSION: "Beyond the paper (docs/explanation/method.md)",
    PAPER: "The paper's",
    BASELINE: "Baselines (docs/explanation/baselines.md)",
}
# The methods of the kind `preparation` by their subcommands of dph.
PREPARATIONS = {"presample": "offline_sampling", "store": "get_correct_data_tensor"}


@dataclass(frozen=True)
class ConfigFile:
    """A file of a group, with the files that its `defaults` name."""

    path: Path

    @property
    def is_own(self) -> bool:
        """Whether it is a user's, and not one of this project's."""
        return not self.path.is_relative_to(CONFIG_DIR)

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def content(self) -> "DictConfig":
        import yaml  # slow, and `dph --help` does not need it
        from omegaconf import DictConfig, ListConfig, OmegaConf

        try:
            content = OmegaConf.create(self.text)
        except (UnicodeDecodeError, yaml.YAMLError) as error:
            raise UserError(f"{self.path} is not YAML in UTF-8: {' '.join(str(error).split())}.") from error
        if not isinstance(content, DictConfig) or not isinstance(content.get("defaults", ListConfig([])), ListConfig):
            raise UserError(
                f"{self.path} must hold settings, KEY: VALUE, and below `defaults` a list of names, such as llama_sql."
            )
        return content

    @property
    def description(self) -> str:
        """The comment at the file's head."""
        head = takewhile(lambda line: line.startswith("#"), self.text.splitlines())
        return "\n".join(line.removeprefix("# ") for line in head if not line.startswith("# @package"))

    @property
    def summary(self) -> str:
        """The comment's first sentence."""
        return " ".join(self.description.split("\n")).partition(". ")[0].removesuffix(".")

    @cached_property
    def parts(self) -> "list[ConfigFile]":
        """This file, then those that its defaults name: as in Hydra, a later one decides over an earlier one."""
        named = [name for name in self.content.get("defaults", []) if isinstance(name, str) and name != "_self_"]
        if self.name in named:
            raise UserError(f"{self.path} names itself below `defaults`: leave it out.")
        return [self, *(part for name in reversed(named) for part in _found(self.path.parent, name).parts)]

    @cached_property
    def launch(self) -> "DictConfig":
        """The settings below `launch` in the file and its parts, unresolved."""
        from omegaconf import OmegaConf

        return OmegaConf.merge(*(part.content.get("launch", {}) for part in reversed(self.parts)))  # type: ignore[return-value]


@cache
def _found(folder: Path, name: str) -> ConfigFile:
    """A file that `defaults` name: in the same folder, or, if a user's folder does not have it, in ours."""
    for path in (folder / f"{name}.yaml", CONFIG_DIR / folder.name / f"{name}.yaml"):
        if path.is_file():
            return ConfigFile(path)
    raise UserError(
        f"{folder / name}.yaml, which `defaults` names, does not exist: give one of {', '.join(files(folder.name))}."
    )


@cache
def files(group: str) -> dict[str, ConfigFile]:
    """The files of a group, `method` or `experiment`, by name."""
    return {path.stem: ConfigFile(path) for path in sorted((CONFIG_DIR / group).glob("*.yaml"))}


def methods(*kinds: str) -> dict[str, ConfigFile]:
    """The methods of these kinds, or all methods if no kind is given."""
    return {name: file for name, file in files("method").items() if not kinds or file.launch["kind"] in kinds}


def next_step(command: str, experiment: str) -> str:
    """The line that ends a step before training: the next command.

    Args:
        command: without the experiment.
        experiment: one of ours, or a user's file.
    """
    option = "--experiment " if command.startswith("dph split") else "experiment="
    return f"Next: {command}{f' {option}{shlex.quote(experiment)}' if experiment != DEFAULT_EXPERIMENT else ''}\n"


def experiment(name: str) -> ConfigFile:
    """An experiment of ours by its name, or a user's file by its path."""
    ours = files("experiment")
    if name in ours:
        return ours[name]
    path = Path(name)
    if path.suffix != ".yaml" or not path.is_file() or path.resolve().parent.name != "experiment":
        fault = "is not a YAML file in a folder named experiment" if path.is_file() else "does not exist"
        raise UserError(
            f"The experiment '{name}' {fault}: give {', '.join(ours)}, or a file of your own, such as "
            "mine/experiment/my_sql.yaml."
        )
    own = ConfigFile(path.resolve())
    for part in own.parts:
        if part.is_own and (CONFIG_DIR / "experiment" / part.path.name).is_file():
            raise UserError(
                f"{part.path} has the name of one of this project's files, which would be taken: rename it."
            )
    if all(part.is_own for part in own.parts):
        raise UserError(
            f"{path} does not extend one of this project's experiments: add `defaults: [llama_sql, _self_]`."
        )
    return own
