"""Methods and experiments, read from the files of verl/dph/config/method and verl/dph/config/experiment."""

import argparse
import re
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

from rl.common.errors import UserError
from rl.configuration import CONFIG_DIR
from rl.configuration.names import READS_VARIABLE

# Folders of scripts/, and the experiment that their scripts run unless SETTINGS names another.
FOLDERS = {"llama": "llama_sql", "qwen": "qwen_math"}
DEFAULT_EXPERIMENT = FOLDERS["llama"]

PAPER, EXTENSION, BASELINE, PREPARATION = "paper", "extension", "baseline", "preparation"
# The kinds of methods that train, with their headings.
KINDS = {
    PAPER: "The paper's",
    EXTENSION: "Beyond the paper (docs/explanation/method.md)",
    BASELINE: "Baselines (docs/explanation/baselines.md)",
}
# The methods of the kind `preparation` by their subcommands of dph.
PREPARATIONS = {"presample": "offline_sampling", "store": "get_correct_data_tensor"}

# Hydra reads a file's package in its first lines, before any other comment.
_HEADER = re.compile(r"#+\s*@")
_PACKAGE = re.compile(r"#+\s*@package\s+_global_")


@dataclass(frozen=True)
class ConfigFile:
    """A file of a group, with the files that its `defaults` name."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def lines(self) -> list[str]:
        try:
            return self.path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise UserError(f"{self.path} is not UTF-8 ({error}): save it as UTF-8.") from error

    @cached_property
    def content(self) -> dict[str, Any]:
        import yaml  # slow, and `dph --help` does not need it

        try:
            content = yaml.safe_load("\n".join(self.lines))
        except yaml.YAMLError as error:
            raise UserError(f"{self.path} is not YAML: {' '.join(str(error).split())}.") from error
        defaults = content.get("defaults", []) if isinstance(content, dict) else None
        if not isinstance(defaults, list) or not all(isinstance(name, str) for name in defaults):
            raise UserError(
                f"{self.path} must hold settings, KEY: VALUE, and below `defaults` a list of names, such as llama_sql."
            )
        return content

    @property
    def description(self) -> str:
        """The comment at the file's head."""
        head = self.lines[: next(i for i, line in enumerate(self.lines) if not line.startswith("#"))]
        return "\n".join(line.removeprefix("# ") for line in head if not line.startswith("# @package"))

    @property
    def summary(self) -> str:
        """The comment's first sentence."""
        return " ".join(self.description.split("\n")).partition(". ")[0].removesuffix(".")

    @cached_property
    def parts(self) -> "list[ConfigFile]":
        """This file, then those that its defaults name: as in Hydra, a later one decides over an earlier one."""
        named = [name for name in self.content.get("defaults", []) if name != "_self_"]
        if self.path.stem in named:
            raise UserError(f"{self.path} names itself below `defaults`: leave it out.")
        return [self, *(part for name in reversed(named) for part in _found(self.path.parent, name).parts)]

    @cached_property
    def launch(self) -> dict[str, Any]:
        """The settings below `launch` in the file and its parts, unresolved."""
        merged: dict[str, Any] = {}
        for part in reversed(self.parts):
            merged |= part.content.get("launch", {})
        return merged

    @property
    def program(self) -> str:
        """The module that runs this method."""
        return self.launch["program"]

    @property
    def arguments(self) -> list[str]:
        """This method's positional arguments, in brackets if they may be left out."""
        names = self.launch["arguments"]
        return [name if name in ("NAME", "[NAME]") else f"[{name}]" for name in names]

    def variables(self) -> list[str]:
        """The environment variables that the file itself reads."""
        return [name for _, names in self.paragraphs() for name in names]

    def paragraphs(self) -> list[tuple[list[str], list[str]]]:
        """The file's variables in order, each group with its comment.

        A comment is of the lines below it up to an empty one or a section, if the first of them reads a variable.
        """
        found: list[tuple[list[str], list[str]]] = [([], [])]
        comment: list[str] = []
        for line in map(str.strip, self.lines):
            match = READS_VARIABLE.match(line.partition(": ")[2])
            if line.startswith("#"):
                comment.append(line)
                continue
            if comment or not line or line.endswith(":"):
                found.append((comment if match else [], []))
            if match:
                found[-1][1].append(match[1])
            comment = []
        return found


@cache
def _found(folder: Path, name: str) -> ConfigFile:
    """A file that `defaults` name: in the same folder, or, if a user's folder lacks it, in ours."""
    ours = CONFIG_DIR / folder.name / f"{name}.yaml"
    own = folder / f"{name}.yaml"
    if not own.is_file() and not ours.is_file():
        raise UserError(f"{own}, which `defaults` names, does not exist: give one of {', '.join(files(folder.name))}.")
    return ConfigFile(_not_ours(own, ours) if own.is_file() else ours)


def _not_ours(path: Path, ours: Path) -> Path:
    """The path of a file. Raises a UserError for a user's file if a file of ours would be taken in its place."""
    if ours.is_file() and not ours.samefile(path):
        raise UserError(f"{path} has the name of a file of ours, which would be taken in its place: rename it.")
    return path


@cache
def files(group: str) -> dict[str, ConfigFile]:
    """The files of a group, `method` or `experiment`, by name."""
    return {path.stem: ConfigFile(path) for path in sorted((CONFIG_DIR / group).glob("*.yaml"))}


def methods(*kinds: str) -> dict[str, ConfigFile]:
    """The methods of these kinds, or all methods if no kind is given."""
    return {name: file for name, file in files("method").items() if not kinds or file.launch["kind"] in kinds}


def dph_command(method: str) -> str:
    """The subcommand of dph that runs a method."""
    return {name: f"dph {command}" for command, name in PREPARATIONS.items()}.get(method, f"dph train {method}")


def known_variables() -> set[str]:
    """Every environment variable that a method or an experiment reads."""
    return {
        name
        for group in ("method", "experiment")
        for path in (CONFIG_DIR / group).rglob("*.yaml")
        for name in ConfigFile(path).variables()
    }


def add_experiment(parser: argparse.ArgumentParser, default: str = DEFAULT_EXPERIMENT) -> None:
    """Add the option that names an experiment of ours.

    Args:
        default: the experiment, if neither the option nor SETTINGS names one.
    """
    names = [*files("experiment")]
    about = f"the paper's experiment: {', '.join(names)} (default: SETTINGS, else {default})"
    parser.add_argument("--experiment", choices=names, metavar="NAME", help=about)


def next_step(command: str, experiment: str) -> str:
    """The line that ends a step before training: the next command.

    Args:
        command: without the experiment.
        experiment: one of ours, or the name of a user's, which SETTINGS names for both commands.
    """
    option = f" --experiment {experiment}" if experiment in files("experiment") else ""
    return f"Next, with the same variables: {command}{option if experiment != DEFAULT_EXPERIMENT else ''}\n"


def _check_own(experiment: ConfigFile) -> None:
    """Raise a UserError for a user's file whose settings Hydra would put elsewhere, or replace by those of ours."""
    if not any(part.path.is_relative_to(CONFIG_DIR) for part in experiment.parts):
        raise UserError(f"{experiment.path} begins with no experiment of ours: add `defaults: [llama_sql, _self_]`.")
    for part in experiment.parts:
        defaults = part.content.get("defaults", [])
        if part.path.is_relative_to(CONFIG_DIR):
            continue
        header = takewhile(_HEADER.match, filter(None, map(str.strip, part.lines)))
        if not any(_PACKAGE.fullmatch(line) for line in header):
            raise UserError(
                f"{part.path} does not begin with the line `# @package _global_`, so that nothing would read it: put "
                "it first."
            )
        after = defaults[defaults.index("_self_") + 1 :] if "_self_" in defaults else []
        if any(_found(part.path.parent, name).path.is_relative_to(CONFIG_DIR) for name in after):
            raise UserError(f"{part.path}: the `defaults` after _self_ would replace its settings: put _self_ last.")


def experiment_part(name: str) -> ConfigFile:
    """A file that several experiments share."""
    return ConfigFile(CONFIG_DIR / "experiment" / "base" / f"{name}.yaml")


def experiment(name: str) -> ConfigFile:
    """An experiment of ours by its name, or a user's file by its path.

    Raises:
        UserError: no experiment and no file has this name, the file is not a YAML in a folder named experiment, it has
            the name of one of ours, or Hydra would not read its settings.
    """
    ours = files("experiment")
    if name in ours:
        return ours[name]
    path = Path(name)
    if path.suffix == ".yaml" and path.is_file() and path.resolve().parent.name == "experiment":
        own = ConfigFile(_not_ours(path.resolve(), CONFIG_DIR / "experiment" / path.name))
        _check_own(own)
        return own
    fault = "are not a YAML file in a folder named experiment" if path.is_file() else "do not exist"
    raise UserError(
        f"the settings '{name}' {fault}: give {', '.join(ours)}, or a file of your own in SETTINGS, such as "
        "mine/experiment/my_sql.yaml."
    )
