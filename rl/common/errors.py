"""The one exception for user-fixable errors, and what its sentence takes from a program's output."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class UserError(Exception):
    """User-fixable error: a wrong setting, file or state.

    Its text is one sentence: what is wrong, what was found, what to do. Programs print it and exit with code 2.
    """


@contextmanager
def file_errors(what: object, verb: str, advice: str = "") -> Iterator[None]:
    """Make a UserError of an OSError in the block, or of text that is not UTF-8.

    "`what` cannot be `verb` (No such file or directory): `advice`."

    Args:
        what: names the file.
        verb: such as "read" or "written".
    """
    try:
        yield
    except UnicodeDecodeError as error:
        raise UserError(f"{what} cannot be {verb} (it is not UTF-8){advice and f': {advice}'}.") from error
    except OSError as error:
        raise UserError(f"{what} cannot be {verb} ({error.strerror or error}){advice and f': {advice}'}.") from error


def last_line(text: str) -> str:
    """The last line that is not blank, at most 300 characters of it; "" without one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def cause_in(log: Path, silent: str = "it printed nothing") -> str:
    """Why a program failed: the last `Error: ...` of its output, or else its last line, or else `silent`."""
    text = log.read_text(errors="replace")
    sentences = re.findall(r"^Error: (.+)$", text, re.MULTILINE)
    return sentences[-1] if sentences else last_line(text) or silent
