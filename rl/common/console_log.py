"""Console output for people: verl's, Ray's and torch's output goes to a log file, and what people need to the terminal.

A program that starts verl writes what it and its processes print through a filter, which is a process of its own, so
that a crash loses nothing:

    python console_log.py FILE < output

The file gets everything but the steps of progress bars. The terminal gets our own messages, errors, progress bars of
the program itself, and one short line per training step.
"""

import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Set while a log is written; processes that inherit it mark their messages.
_VARIABLE = "DPH_LOG"
# Set by a user who wants everything on the terminal.
VERBOSE = "VERBOSE"
# The loggers of this repository, and how their lines begin.
_OURS, _MARK = ("rl", "verl.dph"), "dph: "
_END = b"\x04 end of the log"
_END_LIMIT_S = 10

# Of another process, as Ray prints it.
_RAY = re.compile(r"^(?:\x1b\[\d+m)?\(([^()]* )?pid=\d+[^()]*\)(?:\x1b\[0m)? ?")
_BAR = re.compile(r"\d+%\|.*\|")
_ERROR = re.compile(r"\b(ERROR|CRITICAL|FATAL)\b")
_STEP = re.compile(r"\bstep:(\d+) - (.*)")
_SHOWN = {
    "critic/rewards/mean": "reward",
    "response_length/mean": "length",
    "dph/divergence": "divergence",
    "dph/coefficient": "eta",
    "dph/keep_rate": "keep rate",
    "perf/time_per_step": "seconds",
}
_VALIDATION = "val-core/"


@contextmanager
def console_log(path: Path) -> Iterator[None]:
    """Append to `path` what this process and those that it starts print in the block.

    With VERBOSE=1 in the environment everything stays on the terminal.

    Raises:
        OSError: the file cannot be written.
    """
    if os.environ.get(VERBOSE, "0") not in ("", "0"):
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as log:
        log.write(f"--- {time.strftime('%Y-%m-%d %H:%M:%S')} {' '.join(sys.argv)}\n")
    sys.stderr.write(f"Log: {path} ({VERBOSE}=1 prints everything)\n")
    terminal = [os.dup(1), os.dup(2)]
    command = [sys.executable, "-I", "-S", __file__, str(path)]
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
            reader.stdin.write(b"\n" + _END + b"\n")
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
        self.setFormatter(logging.Formatter(f"{_MARK}%(message)s"))


def _point_output_to(stdout: int, stderr: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)


def shown(line: str) -> str | None:
    """What the terminal gets of a line of output, None for nothing."""
    of_ray = _RAY.match(line)
    text = line[of_ray.end() :] if of_ray else line
    if step := _STEP.search(text):
        return _step(*step.groups())
    if text.startswith(_MARK):
        return text.removeprefix(_MARK)
    if _BAR.search(text):
        return None if of_ray else text
    return text if _ERROR.search(text) else None


def _step(number: str, metrics: str) -> str:
    """A training step in one short line, from the line of verl's console logger."""
    values = dict(item.rpartition(":")[::2] for item in metrics.split(" - "))
    named = {label: values[key] for key, label in _SHOWN.items() if key in values}
    named |= {key.removeprefix(_VALIDATION): value for key, value in values.items() if key.startswith(_VALIDATION)}
    return f"step:{number} " + "  ".join(f"{label} {_short(value)}" for label, value in named.items())


def _short(value: str) -> str:
    found = re.search(r"-?\d+(\.\d+)?(e[+-]?\d+)?", value.rpartition("(")[2])
    return f"{float(found[0]):.4g}" if found else value


def filter_output(path: str) -> None:
    """Read output from stdin until it ends; the file gets it but for progress bars, stdout what `shown` says."""
    rest, after_bar = b"", False
    with open(path, "ab") as log:
        while data := os.read(0, 1 << 16):
            *lines, rest = re.split(rb"[\r\n]", rest + data)
            if _BAR.search(rest.decode(errors="replace")):  # its end comes with the next one
                lines, rest = [*lines, rest], b""
            for line in filter(None, lines):
                if line == _END:
                    return
                decoded = line.decode(errors="replace")
                text, is_bar = shown(decoded), _BAR.search(decoded) is not None
                if not is_bar:
                    log.write(line + b"\n")
                    log.flush()
                if text is not None:
                    start, end = ("\r", "") if is_bar else ("\n" * after_bar, "\n")
                    sys.stdout.write(f"{start}{text}{end}")
                    sys.stdout.flush()
                    after_bar = is_bar
        log.write(rest)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    filter_output(sys.argv[1])
