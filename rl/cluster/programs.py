"""Start and end the programs of one node. No process that they start outlives the launcher."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

import psutil

from rl.common.errors import file_errors
from rl.common.parent_death import end_with_parent
from rl.common.signals import Stopped
from rl.common.time_limits import COMMAND_GRACE_S

PROGRAM_GRACE_S = 3.0
KILL_S = 5.0
POLL_S = 0.2
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None)


@contextmanager
def ending_all() -> Iterator[None]:
    """End every process that the block has started, and what those have started.

    Raises:
        Stopped: SIGINT, SIGTERM or SIGHUP came; later ones are ignored.
    """

    def stop_here(number: int, frame: object) -> None:
        _ignore_signals()
        raise Stopped(signal.Signals(number))

    # Orphaned descendants become our children, not init's, so that we find them.
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in _SIGNALS:
        # A signal that is ignored, as under nohup, stays ignored.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, stop_here)
    try:
        yield
    finally:
        _ignore_signals()
        _end_descendants()


def _ignore_signals() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def start(
    command: Sequence[str], environment: Mapping[str, str] | None = None, log: Path | None = None
) -> subprocess.Popen:
    """Start a program in its own session, so that Ctrl-C reaches it only through us.

    Args:
        environment: variables in addition to ours.
        log: the file for its output; with None it uses our output.
    """
    with nullcontext() if log is None else open(log, "ab") as output:
        return subprocess.Popen(
            command,
            env=os.environ | (environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=partial(end_with_parent, os.getpid()),
        )


def run(command: Sequence[str], environment: Mapping[str, str], tick: Callable[[], None]) -> int:
    """Run a command to its end, with our output. An exception in tick() interrupts it, as Ctrl-C does.

    Return its exit code, or 128 + n if signal n ended it.
    """
    with file_errors(command[0], "run", "give a program"):
        process = start(command, environment)
    try:
        while process.poll() is None:
            tick()
            time.sleep(POLL_S)
    finally:
        if process.poll() is None:
            # On SIGINT the programs of verl.dph end their own Ray.
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(COMMAND_GRACE_S)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def say(sentence: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"cluster: {sentence}\n")
    sys.stderr.flush()


def _end_descendants() -> None:
    """Send SIGTERM, then SIGKILL; repeat while a dying process leaves others behind."""
    for number, seconds in ((signal.SIGTERM, PROGRAM_GRACE_S), (signal.SIGKILL, KILL_S), (signal.SIGKILL, KILL_S)):
        descendants = psutil.Process().children(recursive=True)
        for process in descendants:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        psutil.wait_procs(descendants, timeout=seconds)
