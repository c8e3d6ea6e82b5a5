"""Checks before any worker starts: engines, the sandbox, and the functions of tasks."""

import subprocess
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from rl.common.errors import UserError
from rl.scorer.config import ScorerSettings, SqlSettings, TaskSettings
from rl.scorer.sandbox import confine
from rl.scorer.sql.engines import ENGINES, connection_parameters

_REPOSITORY = Path(__file__).resolve().parents[2]
_LOAD_TASK = (
    "import sys; sys.path.insert(0, sys.argv[1]); from rl.scorer.task.jobs import TaskJobs; TaskJobs(*sys.argv[2:])"
)


def check_scorers(scorers: Iterable[tuple[str, ScorerSettings]]) -> None:
    """Raise UserError if scorers (name, settings) cannot work; warn on stderr if the kernel cannot confine them."""
    scorers = list(scorers)
    _check_sandbox(scorers)
    for name, settings in scorers:
        if isinstance(settings, SqlSettings):
            _check_engine(name, settings)
        elif isinstance(settings, TaskSettings):
            _check_task(settings)


def _check_sandbox(scorers: list[tuple[str, ScorerSettings]]) -> None:
    lacks = " and ".join(name.capitalize() for name in confine.MECHANISMS if name not in confine.offered())
    wanting = [(name, settings.sandbox) for name, settings in scorers if settings.sandbox != "off"]
    if not lacks or not wanting:
        return
    for name, setting in wanting:
        if setting == "required":
            raise UserError(
                f"Scorers.{name}.sandbox is 'required', but the kernel lacks {lacks} (Linux 5.13 or later on x86-64 or "
                "arm64, with both enabled); set it to auto to do without."
            )
    sys.stderr.write(
        f"Warning: the kernel lacks {lacks}, so workers are not confined as docs/reference/scorer.md describes; "
        "`sandbox: off` in Scorers accepts this, `required` makes it an error.\n"
    )


def _check_engine(name: str, settings: SqlSettings) -> None:
    """Check that the engine's package is installed and that its connection can be used."""
    engine = ENGINES[settings.engine]
    if engine.package is not None and find_spec(engine.package) is None:
        raise UserError(
            f"Scorers.{name} has the engine {settings.engine}, which needs the package {engine.package}; install it: "
            "pip install '.[engines]'."
        )
    if engine.in_server:
        try:
            connection_parameters(settings.connection or "")
        except ValueError as error:
            raise UserError(f"Scorers.{name}.connection {error}.") from None


def _check_task(settings: TaskSettings) -> None:
    """Load the function in a separate process; the error names the line of the user's file."""
    command = [sys.executable, "-c", _LOAD_TASK, str(_REPOSITORY), str(settings.path), settings.function_name]
    tried = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if tried.returncode == 0:
        return
    lines = tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"]
    beginning = f'File "{settings.path.resolve()}", '
    places = [line.strip().removeprefix(beginning) for line in lines if line.strip().startswith(beginning)]
    where = f" ({places[-1].split(', in ')[0]})" if places else ""
    raise UserError(
        f"The reward function {settings.function} of the task {settings.task} cannot be loaded: {lines[-1]}{where}; "
        "correct the file."
    )
