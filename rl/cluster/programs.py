"""The programs that a node runs, and their end: whatever they started ends with them, wherever it went."""

import asyncio
import ctypes
import os
import shutil
import signal
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from rl.cluster.errors import ClusterError

# Within what SLURM and Kubernetes allow between SIGTERM and SIGKILL (30 s), the command's time and that of the others.
COMMAND_GRACE_S = 15.0
PROGRAM_GRACE_S = 3.0
KILL_S = 5.0
POLL_S = 0.05
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LIBC = ctypes.CDLL(None)


class Programs:
    """Programs of one node, for `async with`: none of them, nor anything that they started, outlives the block.

    Attributes:
        folder: for logs and for Ray, short enough for its sockets. It stays where `keep_logs` was set.
    """

    def __init__(self):
        # Processes whose parent ends become our children instead of init's, and can be found.
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.folder = Path(tempfile.mkdtemp(prefix="dph-", dir=os.environ.get("RAY_TMPDIR", "/tmp")))
        self.keep_logs = False

    async def __aenter__(self) -> "Programs":
        return self

    async def __aexit__(self, *exception) -> None:
        await asyncio.to_thread(_end_children)
        if self.keep_logs and any(self.folder.iterdir()):
            say(f"logs of what was started here: {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    async def start(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, *, log: str | None = None
    ) -> Process:
        """Starts a program in a session of its own, so that a Ctrl-C reaches it through us alone, and in its turn.

        Args:
            environment: in addition to ours.
            log: name of the log that takes its output; None: our output takes it.
        """
        start = partial(
            asyncio.create_subprocess_exec,
            *command,
            env=os.environ | (environment or {}),
            stdin=DEVNULL,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        if log is None:
            return await start()
        with open(self.log(log), "ab") as output:
            return await start(stdout=output, stderr=STDOUT)

    def last_line(self, name: str) -> str:
        """The last line of a log, for an error's sentence."""
        lines = [line.strip() for line in self.log(name).read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1][:300] if lines else "it printed nothing"


async def stop(process: Process, number: int = signal.SIGTERM, seconds: float = PROGRAM_GRACE_S) -> None:
    """Asks a program to end; it is killed when it has not after so many seconds."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.send_signal(number)
    try:
        await asyncio.wait_for(process.wait(), seconds)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def run(programs: Programs, command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs a command to its end, with our output. It is interrupted, as by Ctrl-C, when we are cancelled.

    Returns its exit code, 128 + n where signal n ended it.
    """
    try:
        process = await programs.start(command, environment)
    except OSError as error:
        raise ClusterError(f"{command[0]} cannot be run ({error.strerror}): give a program.") from None
    try:
        code = await process.wait()
    finally:
        # The programs of verl.dph then end their own Ray.
        await stop(process, signal.SIGINT, COMMAND_GRACE_S)
    return code if code >= 0 else 128 - code


async def race(*works: Coroutine) -> Any:
    """The outcome of the first of some works to return or raise; the others are cancelled, and have ended."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task.done()).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Interruption:
    """The first signal that tells this node to end."""

    number: int | None = None

    @property
    def exit_code(self) -> int:
        return 128 + self.number


def say(sentence: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"cluster: {sentence}\n")
    sys.stderr.flush()


def _end_with_parent() -> None:
    """A SIGKILL of ours, after which we end nothing, is a SIGTERM of theirs."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _end_children() -> None:
    """SIGTERM, then SIGKILL, to all descendants, again while a dying one leaves others behind."""
    for number, seconds in ((signal.SIGTERM, PROGRAM_GRACE_S), (signal.SIGKILL, KILL_S), (signal.SIGKILL, KILL_S)):
        for child in _descendants():
            with suppress(psutil.NoSuchProcess):
                child.send_signal(number)
        deadline = time.monotonic() + seconds
        while _descendants() and time.monotonic() < deadline:
            time.sleep(POLL_S)


def _descendants() -> list[psutil.Process]:
    """Those that run. The others are left to be reaped by asyncio, and at our end by init."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if child.status() != psutil.STATUS_ZOMBIE:
                found.append(child)
    return found
