"""Console output for people: a log file gets all output of verl, Ray and torch, the terminal only what people need.

A separate process (console_filter) filters the output, so that a crash loses nothing.
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
from rl.common.cli import shutdown_ray
from rl.common.console_filter import END, MARK
from rl.common.errors import file_errors

# Set while a log is written; processes that inherit it mark their messages.
_VARIABLE = "DPH_LOG"
# Set by a user who wants everything on the terminal.
VERBOSE = "VERBOSE"
_OURS = ("rl", "verl.dph")  # loggers
_END_LIMIT_S = 10


@contextmanager
def console_log(path: Path) -> Iterator[None]:
    """Append to `path` what this process and its children print in the block.

    With VERBOSE=1 in the environment everything stays on the terminal.
    """
    if os.environ.get(VERBOSE, "0") not in ("", "0"):
        yield
        return
    with file_errors(f"The log {path}", "written", "give a folder that can"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as log:
            log.write(f"--- {time.strftime('%Y-%m-%d %H:%M:%S')} {' '.join(sys.argv)}\n")
    sys.stderr.write(f"Log: {path} ({VERBOSE}=1 prints everything)\n")
    terminal = [os.dup(1), os.dup(2)]
    command = [sys.executable, "-I", "-S", console_filter.__file__, str(path)]
    # In its own session the filter outlives Ctrl-C, and ends when there is nothing more to read.
    reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=terminal[1], start_new_session=True)
    assert reader.stdin is not None
    _point_output_to(reader.stdin.fileno(), reader.stdin.fileno())
    os.environ[_VARIABLE] = str(path)
    mark_messages()
    try:
        yield
    finally:
        shutdown_ray()  # its processes may still print, which belongs in the log and not after our last sentence
        del os.environ[_VARIABLE]
        mark_messages()
        _point_output_to(*terminal)
        for descriptor in terminal:
            os.close(descriptor)
        try:
            # Without this line the filter would wait for a process that outlives the block.
            reader.stdin.write(f"\n{END}\n".encode())
            reader.stdin.close()
            reader.wait(timeout=_END_LIMIT_S)
        except (OSError, subprocess.TimeoutExpired):
            reader.kill()


def mark_messages() -> None:
    """Mark our loggers' messages so that the filter lets them pass; without a filter, remove the mark."""
    for name in _OURS:
        logger = logging.getLogger(name)
        for handler in [handler for handler in logger.handlers if isinstance(handler, _Marked)]:
            logger.removeHandler(handler)
        logger.propagate = _VARIABLE not in os.environ  # otherwise the log would have each message twice
        if not logger.propagate:
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
