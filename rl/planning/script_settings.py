"""The run that a launch script would start: its program, environment and settings, from the script's own dry run."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rl.common.errors import UserError

CHECKOUT = Path(__file__).resolve().parents[2]
_ANSWERS_WITHIN_S = 60
_OVERRIDE = re.compile(r"[+~]*([\w./@-]+)=(.*)", re.DOTALL)
_SHOWN_SETTING = re.compile(r"^  ([A-Z][A-Z_]*)=(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class ScriptRun:
    """What a launch script would start.

    Attributes:
        script: the script's file.
        variables: the script's settings (MODEL_PATH, SCORER_CONFIG, ...) with the values they have here, as its --help
            shows them; empty where the script itself finds the value (DEVICE, GPUS_PER_NODE).
        environment: variables that the script sets for the program.
        python: the interpreter, a path or a name.
        program: the module, such as "verl.dph.main".
        overrides: Hydra overrides and options in their order; the last one of a key counts.
        messages: what the script says on stderr, such as its plan.
    """

    script: Path
    variables: dict[str, str]
    environment: dict[str, str]
    python: str
    program: str
    overrides: list[str]
    messages: str = ""

    def values(self) -> dict[str, str]:
        """The overrides by key, without Hydra's + and quotes, as Hydra takes them: the last one of a key counts."""
        return override_values(self.overrides)


def script_run(arguments: Sequence[str], variables: Mapping[str, str] | None = None) -> ScriptRun:
    """Ask a launch script what it would start; nothing is started, and none of the run's files is needed.

    Args:
        arguments: the script, relative to the current folder or to the checkout, then its arguments: a NAME, numbers,
            KEY=VALUE.
        variables: settings on top of the environment's.

    Raises:
        UserError: this is no launch script, or it rejects its arguments or settings: its own sentence.
    """
    script = _launch_script(arguments[0] if arguments else "")
    passed = [argument for argument in arguments[1:] if not argument.startswith("--dry-run")]
    environment = os.environ | {"PYTHON": os.environ.get("PYTHON") or sys.executable} | dict(variables or {})
    command, messages = _output(script, [*passed, "--dry-run"], environment)
    words = shlex.split(command.replace("\\\n", " "))
    module = words.index("-m") + 1
    return ScriptRun(
        script=script,
        variables=dict(_SHOWN_SETTING.findall(_output(script, [*passed, "--help"], environment)[0])),
        environment=dict(word.split("=", 1) for word in words[1 : module - 2]),
        python=words[module - 2],
        program=words[module],
        overrides=words[module + 1 :],
        messages=messages,
    )


def override_values(overrides: Sequence[str]) -> dict[str, str]:
    """Hydra overrides as {key: value}, without + and outer quotes; options are left out."""
    found = (_OVERRIDE.fullmatch(override) for override in overrides)
    return {match[1]: _unquoted(match[2]) for match in found if match}


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def _launch_script(name: str) -> Path:
    for path in (Path(name).expanduser(), CHECKOUT / name):
        # Another script might take no notice of --dry-run.
        if path.is_file() and (path.resolve().parents[1] / "lib" / "launch.sh").is_file():
            return path.resolve()
    raise UserError(
        f"'{name}' is no launch script: give one of a checkout, such as scripts/llama/js_kl.sh "
        "(docs/reference/scripts.md)."
    )


def _output(script: Path, arguments: list[str], environment: Mapping[str, str]) -> tuple[str, str]:
    try:
        done = subprocess.run(
            ["bash", str(script), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_ANSWERS_WITHIN_S,
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{script} did not answer {arguments[-1]} within {_ANSWERS_WITHIN_S} s.") from error
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()] or [f"{script} failed without a word."]
        raise UserError(said[-1].removeprefix("Error: "))
    return done.stdout, done.stderr
