"""The processes of a program and its descendants: list them, end them."""

import signal
import subprocess
from contextlib import suppress

import psutil

from rl.common.time_limits import COMMAND_GRACE_S


def process_tree(pid: int) -> list[psutil.Process]:
    """A process and its descendants, itself first; empty if it is gone."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def end_process_tree(process: subprocess.Popen, grace_seconds: float = COMMAND_GRACE_S) -> None:
    """End a program and its descendants, among them Ray's processes: SIGINT first, SIGKILL after the grace period."""
    if process.poll() is not None:
        return
    alive = process_tree(process.pid)
    for number in (signal.SIGINT, signal.SIGKILL):
        for member in alive:
            with suppress(psutil.NoSuchProcess):
                member.send_signal(number)
        _, alive = psutil.wait_procs(alive, timeout=grace_seconds)
    process.wait()
