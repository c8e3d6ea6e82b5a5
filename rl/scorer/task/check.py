"""Whether the function of a user's task can be loaded, tried in a process of its own before any worker is started."""

import subprocess
import sys
from pathlib import Path

from rl.common.errors import UserError
from rl.scorer.config import TaskSettings

_REPOSITORY = Path(__file__).resolve().parents[3]
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from rl.scorer.task.jobs import TaskJobs; TaskJobs(*sys.argv[2:])"
)


def check_task(settings: TaskSettings) -> None:
    """Raise UserError with the exception and the line of the user's file that it came from."""
    command = [sys.executable, "-c", _PROGRAM, str(_REPOSITORY), str(settings.path), settings.function_name]
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
