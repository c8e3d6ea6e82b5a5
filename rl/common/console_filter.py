"""Filter a program's output: a log file gets everything, the terminal only what people need (console_log).

    python console_filter.py FILE < output

The terminal gets our own messages, errors, the program's own progress bars, and one short line per training step.
Only the standard library is imported, because this process starts together with the program that it filters.
"""

import json
import os
import re
import signal
import sys
from contextlib import suppress
from itertools import chain
from pathlib import Path

# How the messages of this repository's loggers begin, and the line that ends the output.
MARK, END = "dph: ", "\x04 end of the log"

# Ray's prefix of a line that another process printed.
_RAY = re.compile(r"^(?:\x1b\[\d+m)?\(([^()]* )?pid=\d+[^()]*\)(?:\x1b\[0m)? ?")
# A progress bar of tqdm. Those of transformers are left out, because each takes only a moment.
_BAR = re.compile(r"(?!Loading|Writing)[^|]*\d+%\|[^|]*\|[^\[]*\[[^\]]*\]")
_ERROR = re.compile(r"\b(ERROR|CRITICAL|FATAL)\b")
# The last line of a traceback, at the left margin. Our own programs print a UserError themselves.
_RAISED = re.compile(r"(?!.*\bUserError\b)(\w+\.)*\w*(Error|Exception|Unavailable|Refused|Mismatch)\b(: .*)?$")
# What differs between two messages of one error.
_NUMBER = re.compile(r"[0-9a-f]{8,}|\d+")
_STEP = re.compile(r"\bstep:(\d+) - (.*)")
_METRICS = json.loads(Path(__file__).with_name("training_metrics.json").read_text(encoding="utf-8"))
_SHOWN = {each["name"]: each["console"] for metrics in _METRICS.values() for each in metrics if "console" in each}
_VALIDATION = "val-core/"


class Terminal:
    """Decides what the terminal shows.

    An error of verl or Ray is shown once, with the exception at the end of its traceback: when a scorer is down, every
    rollout of a step fails with a message that differs only in the rollout's name.
    """

    def __init__(self) -> None:
        self._errors: set[str] = set()
        self._raises = False  # an error was shown, and its exception has not come yet

    def shown(self, line: str) -> str | None:
        """What is shown of a line of output; None for nothing."""
        text = _RAY.sub("", line)
        if step := _STEP.search(text):
            return _step(*step.groups())
        if text.startswith(MARK):
            return text.removeprefix(MARK)
        error = _ERROR.search(text) is not None
        if not error and not (self._raises and _RAISED.match(text)):
            return None
        key = _NUMBER.sub("#", text)
        new = key not in self._errors
        self._errors.add(key)
        self._raises = error and new
        return text if new else None


def _step(number: str, metrics: str) -> str:
    """One short line for a training step, made from the line of verl's console logger."""
    values = dict(item.rpartition(":")[::2] for item in metrics.split(" - "))
    named = {label: values[key] for key, label in _SHOWN.items() if key in values}
    named |= {key.removeprefix(_VALIDATION): value for key, value in values.items() if key.startswith(_VALIDATION)}
    return f"step:{number} " + "  ".join(f"{label} {_short(value)}" for label, value in named.items())


def _short(value: str) -> str:
    found = re.search(r"-?\d+(\.\d+)?(e[+-]?\d+)?", value.rpartition("(")[2])  # np.float64(0.5)
    return f"{float(found[0]):.4g}" if found else value


def filter_output(path: str) -> None:
    """Read stdin to its end; write all but progress bars to the file, and what people need to stdout."""
    rest, after_bar, end_of_bar = b"", False, "\r\x1b[K" if os.isatty(1) else "\n"
    terminal = Terminal()
    with open(path, "ab", buffering=0) as log:
        # The last line may have no end: the program was killed.
        for data in chain(iter(lambda: os.read(0, 1 << 16), b""), [b"\n"]):
            *lines, rest = re.split(rb"[\r\n]", rest + data)
            if _BAR.match(rest.decode(errors="replace")):  # the end of its line comes only with the next bar
                lines, rest = [*lines, rest], b""
            for line in (line.decode(errors="replace") for line in lines):
                bar = None if _RAY.match(line) else _BAR.match(line)
                line = line[bar.end() :] if bar else line
                text, after = terminal.shown(line), end_of_bar if after_bar else ""
                # The program continues without disk space and without a terminal.
                with suppress(OSError):
                    if bar:
                        os.write(1, f"\r{bar[0]}".encode())
                    if line == END or text is not None:
                        os.write(1, (after if text is None else f"{after}{text}\n").encode())
                    after_bar = bar is not None or (after_bar and text is None)
                if line == END:
                    return
                with suppress(OSError):
                    if line:
                        log.write(f"{line}\n".encode())


if __name__ == "__main__":
    # Whoever ends a program and all its descendants (processes.py) interrupts this process too, while they still print.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    filter_output(sys.argv[1])
