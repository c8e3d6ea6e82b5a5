"""Console output for people: verl's, Ray's and torch's output goes to a log file, and what people need to the terminal.

The output passes through a filter (console_filter), which is a process of its own, so that a crash loses nothing.
"""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rl.common import console_filter
from rl.common.console_filter import END, MARK
from rl.common.errors import UserError

# Set while a log is written; processes that inherit it mark their messages.
_VARIABLE = "DPH_LOG"
# Set by a user who wants everything on the terminal.
VERBOSE = "VERBOSE"
_OURS = ("rl", "verl.dph")  # loggers
_END_LIMIT_S = 10


@contextmanager
def console_log(path: Path) -> Iterator[None]:
    """Append to `path` what this process and those that it starts print in the block.

    With VERBOSE=1 in the environment everything stays on the terminal.

    Raises:
        UserError: the file cannot be written.
    """
    if os.environ.get(VERBOSE, "0") not in ("", "0"):
        yield
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as log:
            log.write(f"--- {time.strftime('%Y-%m-%d %H:%M:%S')} {' '.join(sys.argv)}\n")
    except OSError as error:
        raise UserError(f"The log {path} cannot be written ({error.strerror}): give a folder that can.") from error
    sys.stderr.write(f"Log: {path} ({VERBOSE}=1 prints everything)\n")
    terminal = [os.dup(1), os.dup(2)]
    command = [sys.executable, "-I", "-S", console_filter.__file__, str(path)]
    # A session of its own: Ctrl-C ends the program, and the filter when there is nothing more to read.
    reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=terminal[1], start_new_session=True)
    assert reader.stdin is not None
    _point_output_to(reader.stdin.fileno(), reader.stdin.fileno())
    os.environ[_VARIABLE] = str(path)
    mark_messages()
    try:
        yield
    finally:
        del os.environ[_VARIABLE]
        mark_messages()
        _point_output_to(*terminal)
        for descriptor in terminal:
            os.close(descriptor)
        try:
            # Without it a process that outlives the block would keep the filter waiting.
            reader.stdin.write(f"\n{END}\n".encode())
            reader.stdin.close()
            reader.wait(timeout=_END_LIMIT_S)
        except (OSError, subprocess.TimeoutExpired):
            reader.kill()


def mark_messages() -> None:
    """Let the messages of our loggers pass the filter, if there is one; else take the mark off."""
    for name in _OURS:
        logger = logging.getLogger(name)
        for handler in [handler for handler in logger.handlers if isinstance(handler, _Marked)]:
            logger.removeHandler(handler)
        if _VARIABLE in os.environ:
            logger.addHandler(_Marked())


class _Marked(logging.StreamHandler):
    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter(f"{MARK}%(message)s"))


def _point_output_to(stdout: int, stderr: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
