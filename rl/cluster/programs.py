"""Start and end the programs of one node. No process that they start outlives the launcher."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

import psutil

from rl.common.cli import USER_ERROR_EXIT_CODE, find_user_error
from rl.common.errors import file_errors
from rl.common.parent_death import end_with_parent
from rl.common.signals import Stopped
from rl.common.time_limits import COMMAND_GRACE_S, LAUNCHER_GRACE_S

PROGRAM_GRACE_S = 3.0
KILL_S = 5.0
POLL_S = 0.2
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None)
_received: list[signal.Signals] = []


def supervise(work: Callable[[Path], int]) -> int:
    """Run `work` in a child process, then end all its descendants. Return its exit code.

    When Ray is lost, Ray's client aborts its own process; the launcher survives this.

    Args:
        work: takes a folder for logs and Ray's sockets, which is kept after a failure.
    """
    parent = os.environ.get("RAY_TMPDIR") or "/tmp"
    with file_errors(f"RAY_TMPDIR={parent}", "written", "name a folder that can"):
        folder = Path(tempfile.mkdtemp(prefix="dph-", dir=parent))
    # Orphaned descendants become our children, not init's, so that we find them.
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    pid = os.fork()
    if pid == 0:
        end_with_parent()
        handle_signals()
        code = 1
        try:
            code = work(folder)
        except Exception:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            # Skip Ray's exit handlers.
            os._exit(code)

    def forward(number: signal.Signals) -> None:
        os.kill(pid, number)
        signal.alarm(LAUNCHER_GRACE_S)

    signal.signal(signal.SIGALRM, lambda *_: os.kill(pid, signal.SIGKILL))
    handle_signals(forward)
    # Until waitpid() the child keeps its number, so that a signal may still be forwarded.
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    handle_signals()
    signal.alarm(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code < 0:
        say(f"the launcher was ended by {signal.Signals(-code).name}")
        code = 128 + _received[0] if _received else 1
    _end_descendants()
    if code and any(folder.iterdir()):
        say(f"logs of what was started here: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return code


def handle_signals(forward: Callable[[signal.Signals], object] = lambda number: None) -> None:
    """Note the first SIGINT, SIGTERM or SIGHUP for pause(), and forward it; later ones are ignored."""

    def handle(number: int, frame: object) -> None:
        if not _received:
            _received.append(signal.Signals(number))
            forward(signal.Signals(number))

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A signal that is ignored, as under nohup, stays ignored.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handle)


def pause(seconds: float = POLL_S) -> None:
    """Sleep.

    Raises:
        Stopped: a signal has asked this process to end.
    """
    time.sleep(seconds)
    if _received:
        raise Stopped(_received[0])


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
            preexec_fn=end_with_parent,
        )


def stop(process: subprocess.Popen, number: int = signal.SIGTERM, seconds: float = PROGRAM_GRACE_S) -> None:
    """Ask a program to end, and kill it after `seconds`."""
    if process.poll() is not None:
        return
    process.send_signal(number)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run(command: Sequence[str], environment: Mapping[str, str], tick: Callable[[], None] = pause) -> int:
    """Run a command to its end, with our output. An exception in tick() interrupts it, as Ctrl-C does.

    Return its exit code, or 128 + n if signal n ended it.
    """
    with file_errors(command[0], "run", "give a program"):
        process = start(command, environment)
    try:
        while process.poll() is None:
            tick()
    finally:
        # On SIGINT the programs of verl.dph end their own Ray.
        stop(process, signal.SIGINT, COMMAND_GRACE_S)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def exit_code_of(error: Exception) -> int:
    """Exit code of a launcher that ends with this error."""
    if isinstance(error, Stopped):
        return error.exit_code
    return USER_ERROR_EXIT_CODE if find_user_error(error) else 1


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
