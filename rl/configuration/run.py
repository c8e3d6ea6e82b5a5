"""The run that a launch script or `dph train` starts: its method, experiment, overrides, and composed configuration."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

# Positional arguments: the key that each sets, the pattern that it must match, and the words for that in an error.
_NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_POSITIONS = {
    "sft_loss_coeff": ("actor_rollout_ref.actor.sft_loss_coeff", _NUMBER, "a number, 0 or more, such as 0.2"),
    "alpha": ("actor_rollout_ref.actor.alpha_coeff", _NUMBER, "a number between 0 and 1, such as 0.2"),
    "seed": ("launch.seed", re.compile("0|[1-9][0-9]*"), "a whole number"),
}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
# Hydra may read such a NAME as a number, a truth value or null: 2024_11_27 as 20241127.
_NEEDS_QUOTES = re.compile(r"(?i)[0-9_.e-]+|null|true|false|nan|inf")
_VARIABLE = re.compile(r"[A-Z][A-Z_]*=")
_LAUNCH_NUMBER = re.compile(r"(?P<key>\w+): \$\{value:(?P<variable>[A-Z_]+),")
_OPTION = re.compile(r"-[^0-9.]")
DRY_RUNS = {"--dry-run": "command", "--dry-run=command": "command", "--dry-run=config": "config"}

# Settings that the launcher always sets, and the variables that decide them.
_LAUNCHED = {"trainer.nnodes": "NNODES", "trainer.n_gpus_per_node": "GPUS_PER_NODE"}
# Variables of the scorer that a run starts for itself.
_OF_AN_OWN_SCORER = {"DATABASE_PATH", "SCORER_CONFIG", "SCORER_PORT"}
# Variables that the launcher reads itself, too.
_OF_THE_LAUNCHER = ("PYTHON", *_LAUNCHED.values(), "SCORER_NODES", "DEVICE")


@dataclass(frozen=True)
class Run:
    """A run as a launch script starts it.

    Attributes:
        script: the script as the user named it, such as "scripts/llama/js_kl.sh".
        method, experiment: their files.
        given: overrides of the command line, without the method and the experiment; the last one of a key counts.
        dry_run: "command" or "config" to print it, "" to start the run.
        help: whether the user asks only for the help.
    """

    script: str
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
        return f"usage: {self.script} {words} [--dry-run[=config]] [--help] [KEY=VALUE ...]"

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
        replaced = {*_LAUNCHED}
        # An experiment serves training too, in which a method that prepares it has no part.
        if self.method.launch["kind"] != methods.PREPARATION:
            replaced |= variables.raw(variables.merged([self.method])).keys()
        given = {word.lstrip("+").partition("=")[0] for word in self.given}
        # What the user's file has from one of ours, copied or by its defaults, is replaced on purpose.
        ours = next((part for part in self.experiment.parts if part.path.is_relative_to(CONFIG_DIR)), None)
        copied = variables.raw(variables.merged([ours])) if ours else {}
        for key in sorted(own.keys() & replaced - given - {"defaults"}):
            if own[key] not in (composed[key], copied.get(key)):
                instead = f"set {_LAUNCHED[key]}" if key in _LAUNCHED else f"give {key}=VALUE on the command line"
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

    def own_settings(self) -> DictConfig:
        """The settings of these files alone, without verl's and without the command line."""
        return variables.merged([self.method, self.experiment])

    def variables(self) -> list[str]:
        """The environment variables that these files read."""
        return list(dict.fromkeys(name for part in self.parts() for name in part.variables()))

    def read(self) -> set[str]:
        """Those of them that the settings read, because no file that comes first has a value of its own."""
        values = (value for value in variables.raw(self.own_settings()).values() if isinstance(value, str))
        return {name for value in values for name in READS_VARIABLE.findall(value)}

    def ignored(self, environment: Mapping[str, str]) -> Iterator[str]:
        """A sentence for each set variable that belongs to some methods, and that this method does not read."""
        given = {name for name, value in environment.items() if value}
        unread = methods.known_variables() & given - {*self.variables()}
        unused = {
            name: key for name, key in self._numbers().items() if name in given and not _refers(self.parts(), key)
        }
        if "DPH_SCORER" in given:
            for name in sorted(given & _OF_AN_OWN_SCORER):
                yield f"{name} is set, but DPH_SCORER names a scorer that runs already: it changes nothing."
        if self.method.launch["kind"] == methods.PREPARATION:
            return
        for name in sorted(given & {*self.variables()} - self.read() - {*_OF_THE_LAUNCHER}):
            yield (
                f"{name} is set, but the files of {self.method.name} and {self.experiment.name} have a value of their "
                "own in its place: it changes nothing."
            )
        of_methods = methods.methods(*methods.KINDS)
        for name, key in unused.items():
            readers = [method for method, file in of_methods.items() if _refers(file.parts, key)]
            if readers:
                yield f"{name} is set, but {self.method.name} does not use it: {', '.join(readers)} would."
        parts = {part.path: part for file in of_methods.values() for part in file.parts}.values()
        shared = {name for part in parts if part.path.parent.name == "base" for name in part.variables()}
        for name in sorted(unread - shared):
            readers = [method for method, file in of_methods.items() if any(name in p.variables() for p in file.parts)]
            if readers:
                yield f"{name} is set, but {self.method.name} does not read it: {', '.join(readers)} would."

    def _numbers(self) -> dict[str, str]:
        """{variable: setting} of the experiment's numbers that methods refer to, such as CLIP_HIGH."""
        found = (_LAUNCH_NUMBER.match(line.strip()) for part in self.experiment.parts for line in part.lines)
        return {match["variable"]: match["key"] for match in found if match}

    def with_overrides(self, overrides: Sequence[str]) -> "Run":
        return Run(self.script, self.method, self.experiment, [*self.given, *overrides], self.dry_run)


def _refers(parts: Iterable[methods.ConfigFile], key: str) -> bool:
    """Whether a file refers to a setting of the section `launch`."""
    reference = re.compile(rf"\blaunch\.{key}\b")
    return any(reference.search(line) for part in parts for line in part.lines)


def run_of(script: str, arguments: Sequence[str]) -> Run:
    """The run of a launch script or method.

    Args:
        script: a path such as scripts/llama/js_kl.sh, or the name of a method, such as js_kl.
        arguments: NAME and numbers by position, then Hydra overrides; --experiment NAME in place of SETTINGS,
            --dry-run[=config] and --help anywhere.

    Raises:
        UserError: there is no such script, or the arguments are wrong.
    """
    path, known = Path(script), methods.methods()
    parent = path.absolute().parent.name  # also of a script that is named in its folder
    if path.stem not in known or (path.suffix == ".sh" and parent not in methods.FOLDERS):
        raise UserError(
            f"'{script}' is not a launch script: give one of a checkout, such as scripts/llama/js_kl.sh "
            "(docs/reference/scripts.md)."
        )
    folder = methods.FOLDERS.get(parent if path.suffix else "", methods.DEFAULT_EXPERIMENT)
    shown = f"bash {script}" if path.suffix else methods.dph_command(script)
    named, others = _experiment(arguments)
    experiment = methods.experiment(os.environ.get("SETTINGS") or folder if named is None else named)
    return _read(Run(shown, known[path.stem], experiment), others)


def _experiment(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The value of --experiment, None without it, and the other arguments."""
    named, others, words = None, [], iter(arguments)
    for word in words:
        option, equals, value = word.partition("=")
        if option == "--experiment":
            named = value if equals else next(words, "")
        else:
            others.append(word)
    return named, others


def _read(run: Run, arguments: Sequence[str]) -> Run:
    dry_run, rest = "", []
    for word in arguments:
        if word in ("-h", "--help"):
            return Run(run.script, run.method, run.experiment, [], "", help=True)
        if word in DRY_RUNS:
            dry_run = DRY_RUNS[word]
        elif word.startswith(("--dry", "-dry")):
            raise UserError(f"{word} is unknown: did you mean --dry-run or --dry-run=config?")
        elif _OPTION.match(word):
            raise UserError(f"{word} is unknown: the options are --experiment, --dry-run and --help; {run.usage}")
        else:
            rest.append(word)
    given: list[str] = []
    for position in run.method.launch["arguments"]:
        if not rest or is_override(rest[0]):
            break
        given.append(_positional(run, position.strip("[]"), rest.pop(0)))
    if run.method.launch["arguments"][0] == "NAME" and not given:
        raise UserError(f"the run has no NAME; {run.usage}")
    for word in rest:
        if _VARIABLE.match(word):
            raise UserError(
                f"{word} is a setting, an environment variable: put it before {run.script.partition(' ')[0]}, {word} "
                f"{run.script} ..."
            )
        if not is_override(word):
            raise UserError(f"'{word}' is neither KEY=VALUE nor a positional argument; {run.usage}")
    return Run(run.script, run.method, run.experiment, [*given, *rest], dry_run)


def _positional(run: Run, position: str, word: str) -> str:
    if position == "NAME":
        if _NUMBER.fullmatch(word):
            raise UserError(f"NAME is '{word}', a number: give the run's NAME first; {run.usage}")
        if not _NAME.fullmatch(word):
            raise UserError(f"NAME is '{word}', but names a folder: use letters, digits, _ . and -.")
        return f"trainer.experiment_name={repr(word) if _NEEDS_QUOTES.fullmatch(word) else word}"
    key, pattern, wanted = _POSITIONS[position]
    if not pattern.fullmatch(word):
        raise UserError(f"{position} is '{word}': give {wanted}; {run.usage}")
    return f"{key}={word}"


def is_override(word: str) -> bool:
    """Whether Hydra reads this word: KEY=VALUE, +KEY=VALUE or ~KEY."""
    return "=" in word or word.startswith("~")


def _count(name: str, default: int) -> int:
    text = os.environ.get(name) or str(default)
    if not re.fullmatch("0|[1-9][0-9]{0,8}", text):
        raise UserError(f"{name} is '{text}': give a whole number.")
    return int(text)


def set_variables(run: Run, environment: Mapping[str, str]) -> dict[str, str]:
    """The set variables that decide the run's configuration, without the machine's, which are overrides already."""
    machine = {name for part in run.parts() if part.name in ("machine", "cluster") for name in part.variables()}
    return {
        name: environment[name]
        for name in run.variables()
        if name not in machine and (environment.get(name) or (name == "VAL_FILES" and name in environment))
    }
