"""`python -m rl.cluster [options] -- COMMAND`: one node of a run; the launcher calls it."""

import os
import sys
from functools import partial
from pathlib import Path

from rl.cluster.head import run_head
from rl.cluster.programs import exit_code_of, run, say, supervise
from rl.cluster.scorer import ScorerServer
from rl.cluster.settings import HEAD_RANK, UNSET_SCORER_VARIABLES, Settings, parse
from rl.cluster.worker import run_worker
from rl.common.cli import find_user_error, user_errors_exit
from rl.common.signals import Stopped

LOOPBACK = "127.0.0.1"


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: the command's, 2 after a UserError, 1 after the loss of a node, 128 + n after signal n."""
    with user_errors_exit():
        return supervise(partial(_node, parse(arguments)))


def _node(settings: Settings, folder: Path) -> int:
    if settings.nodes > 1:
        # Without a token, anybody who reaches Ray's port could run code on every node.
        os.environ["RAY_AUTH_MODE"] = "token"
    work = _run_alone if settings.nodes == 1 else run_head if settings.rank == HEAD_RANK else run_worker
    try:
        return work(settings, folder)
    except Stopped as stopped:
        say(str(stopped))
        return stopped.exit_code
    except Exception as error:
        sentence = find_user_error(error) or (str(error) if isinstance(error, ConnectionError) else None)
        if sentence is None:
            raise
        sys.stderr.write(f"Error: {sentence}\n")
        return exit_code_of(error)


def _run_alone(settings: Settings, folder: Path) -> int:
    """One machine: the command starts its own Ray. Other runs may use the machine, so this run has its own scorer."""
    scorer, variables = settings.scorer, {}
    if scorer is None:
        server = ScorerServer(settings.scorer_config, settings.database_path, LOOPBACK, settings.scorer_port, folder)
        scorer = server.wait_until_ready(settings.wait_seconds)
        say(f"a scorer was started at {scorer}")
        variables = UNSET_SCORER_VARIABLES
    return run(settings.command, variables | {"DPH_SCORER": scorer})


if __name__ == "__main__":
    sys.exit(main())
