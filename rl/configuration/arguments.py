"""The command line of a launch script or of `dph train`: positional arguments, options, and overrides for Hydra."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rl.common.errors import UserError
from rl.configuration import methods
from rl.configuration.names import hint
from rl.configuration.run import Run

# A positional argument sets a key. The key's type checks the value.
_KEYS = {
    "NAME": "trainer.experiment_name",
    "sft_loss_coeff": "actor_rollout_ref.actor.sft_loss_coeff",
    "alpha": "actor_rollout_ref.actor.alpha_coeff",
    "seed": "launch.seed",
}
_NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
# Hydra may read such a NAME as a number, a truth value or null: 2024_11_27 as 20241127.
_NEEDS_QUOTES = re.compile(r"(?i)[0-9_.e-]+|null|true|false|nan|inf")
_EXPERIMENT = "experiment="
_OPTION = re.compile(r"-[^0-9.]")
_DRY_RUNS = {"--dry-run": "command", "--dry-run=command": "command", "--dry-run=config": "config"}


def run_of(script: str, arguments: Sequence[str]) -> Run:
    """The run of a launch script or method.

    Args:
        script: a path such as scripts/llama/js_kl.sh, or the name of a method, such as js_kl.
        arguments: NAME and numbers by position, then Hydra overrides; experiment=NAME, --dry-run[=config] and --help
            anywhere.
    """
    path, known = Path(script), methods.methods()
    parent = path.absolute().parent.name  # also of a script that is named in its folder
    if path.stem not in known or (path.suffix and parent not in methods.FOLDERS):
        meant = hint(path.stem, [*known], "dph train --list")
        raise UserError(f"'{script}' is neither a method nor a script of scripts/llama or scripts/qwen; {meant}")
    folder = methods.FOLDERS.get(parent if path.suffix else "", methods.DEFAULT_EXPERIMENT)
    subcommands = {name: command for command, name in methods.PREPARATIONS.items()}
    command = f"bash {script}" if path.suffix else f"dph {subcommands.get(script, f'train {script}')}"
    named = [word.removeprefix(_EXPERIMENT) for word in arguments if word.startswith(_EXPERIMENT)]
    experiment = methods.experiment([folder, *named][-1])
    others = [word for word in arguments if not word.startswith(_EXPERIMENT)]
    return _read(Run(command, known[path.stem], experiment), others)


def _read(run: Run, arguments: Sequence[str]) -> Run:
    if {"-h", "--help"} & {*arguments}:
        return replace(run, help=True)
    dry_run, rest = "", []
    for word in arguments:
        if word in _DRY_RUNS:
            dry_run = _DRY_RUNS[word]
        elif _OPTION.match(word):
            raise UserError(f"{word} is unknown: the options are --dry-run and --help; {run.usage}")
        else:
            rest.append(word)
    given: list[str] = []
    positions = run.method.launch["arguments"].split()
    for position in positions:
        if not rest or _is_override(rest[0]):
            break
        given.append(_positional(run, position.strip("[]"), rest.pop(0)))
    if positions[0] == "NAME" and not given:
        raise UserError(f"the run has no NAME; {run.usage}")
    for word in rest:
        if not _is_override(word):
            raise UserError(f"'{word}' is neither KEY=VALUE nor a positional argument; {run.usage}")
    return replace(run, given=[*given, *rest], dry_run=dry_run)


def _positional(run: Run, position: str, word: str) -> str:
    if position == "NAME":
        if _NUMBER.fullmatch(word):
            raise UserError(f"NAME is '{word}', a number: give the run's NAME first; {run.usage}")
        if not _NAME.fullmatch(word):
            raise UserError(f"NAME is '{word}', but names a folder: use letters, digits, _ . and -.")
        word = repr(word) if _NEEDS_QUOTES.fullmatch(word) else word
    return f"{_KEYS[position]}={word}"


def _is_override(word: str) -> bool:
    """Whether Hydra reads this word: KEY=VALUE, +KEY=VALUE or ~KEY."""
    return "=" in word or word.startswith("~")
