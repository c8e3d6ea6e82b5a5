"""A node other than the head: it runs Ray until the head's agent ends it."""

from pathlib import Path

from rl.cluster.node_agent import told_to_end
from rl.cluster.programs import pause, say
from rl.cluster.ray_node import connection_problem, start_ray
from rl.cluster.settings import Deadline, Settings
from rl.common.errors import UserError
from rl.common.time_limits import HEAD_END_S

POLL_S = 0.5


def run_worker(settings: Settings, folder: Path) -> int:
    """Run Ray on this node. Return the exit code that the head sends.

    Raises:
        UserError: the head cannot be reached, or rejects this node, or Ray does not take its arguments.
        ConnectionError: the head is gone, or Ray has ended.
    """
    deadline = Deadline(settings.wait_seconds)
    _wait_for_head(settings, deadline)
    ray_node = start_ray(settings, folder, deadline)
    while True:
        problem = connection_problem(settings.head, settings.ray_port)
        if (end := told_to_end(folder)) is not None:
            exit_code, sentence = end
            if sentence:
                raise UserError(sentence)
            _wait_for_end(settings)
            return exit_code
        # If the machine itself is lost, Ray on this node ends after a minute.
        if isinstance(problem, ConnectionRefusedError):
            raise ConnectionError(f"The head at {settings.head} ended unexpectedly: look at its output.")
        ray_node.check()
        pause(POLL_S)


def _wait_for_head(settings: Settings, deadline: Deadline) -> None:
    where, asked = f"Ray's head at {settings.head} port {settings.ray_port}", False
    while (problem := connection_problem(settings.head, settings.ray_port)) is not None:
        if deadline.left == 0:
            raise UserError(
                f"Node {settings.rank} did not reach {where} within {deadline.seconds:g} s ({problem}): start the same "
                "script there with NODE_RANK=0, or correct MASTER_ADDR."
            )
        if not asked:
            say(f"node {settings.rank} waits for {where}")
            asked = True
        pause(min(POLL_S, deadline.left))


def _wait_for_end(settings: Settings) -> None:
    """Wait until the head's Ray has ended, because the next script on this node must not join it."""
    deadline = Deadline(HEAD_END_S)
    while connection_problem(settings.head, settings.ray_port) is None and deadline.left > 0:
        pause()
