"""Reads SQL or a mathematical answer from a response, without evaluating anything and in linear time."""

import re

from rl.scorer.sql.engines import ENGINES
from rl.scorer.sql.lexer import repair

_THINK, _END_OF_THINKING = "<think>", "</think>"

# The prompt shows this block as the form of an answer; a response that repeats it has not answered with it.
TEMPLATE = "```sql\n-- Your SQL query\n```"
_FENCE = "```"
_OPENINGS = {name: re.compile(rf"```(?:{engine.fences})(?!\w)", re.IGNORECASE) for name, engine in ENGINES.items()}

# A box with its brace, or without; braces; escaped characters, which decide nothing. One or two backslashes before
# `boxed`: a response that went through JSON twice has two.
_TOKENS = re.compile(
    r"""(?P<box>\\\\?(?:boxed|fbox)(?![A-Za-z])\s*+)(?P<brace>\{)? | \\. | \{ | \}""", re.DOTALL | re.VERBOSE
)
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
# `\boxed 5`: something that looks like mathematics, up to a blank.
_UNBRACED = re.compile(r"(?!\\\\?(?:boxed|fbox))(?:[-+(\[\\\d]|\.\d)")
_UNBRACED_REST = re.compile(r"(?:[^\s${}]|\{[^${}]*\})*+")
_ANSWER = re.compile(r"(?<![A-Za-z])answer[ \t]*+(?:\*\*|__)?+[ \t]*+[:：]", re.IGNORECASE)
_LINE = re.compile(r"\S[^\n]*")
_FULL_STOP = re.compile(r"(?<!\\right)\.$")
# Delimiters of formulas and code, which may surround the answer of a line.
_DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("`", "`"))


def _without_thinking(response: str) -> str:
    """What follows the last </think>, up to a <think> that is never closed; all of a response that has neither.

    A draft among the thoughts is not an answer, and a response that is cut off while it thinks has none.
    """
    return response.rpartition(_END_OF_THINKING)[2].partition(_THINK)[0]


def read_sql(response: str, engine: str = "sqlite") -> str | None:
    """The SQL in the last closed ```sql block of `response`, repaired; None without such a block.

    Each engine has further names for the block (ENGINES), in any case. A block may be on one line; an empty block
    is not an answer. A second opening fence inside a block ends it, so the last opening decides. Blocks before </think>
    do not count.
    """
    response = _without_thinking(response).replace(TEMPLATE, "")
    for opening in reversed(list(_OPENINGS[engine].finditer(response))):
        end = response.find(_FENCE, opening.end())
        if end >= 0:
            return repair(response[opening.end() : end].strip(), engine) or None
    return None


def read_answer(response: str) -> str | None:
    r"""The content of the last \boxed{...} (or \fbox), else of the last "Answer:" line, else None.

    The last box is the one that opens last among those that are closed and not empty, so a response that is cut off, or
    that repeats the prompt's "\boxed{}", keeps its earlier answer. Braces nest; escaped ones do not count. `\boxed 5`
    reads 5. "Answer:" is read in any case and may be bold; empty lines may separate it from the answer, whose emphasis,
    surrounding dollars and full stop are removed. The comparison, not this function, limits the length. Text before
    </think> holds no answer.
    """
    response = _without_thinking(response)
    boxed = _last_box(response)
    return boxed if boxed is not None else _last_answer_line(response)


def _last_box(text: str) -> str | None:
    last = max(text.rfind(r"\boxed"), text.rfind(r"\fbox"))
    if last < 0:
        return None
    # Nearly always the last one is closed, and nothing before it needs to be read.
    boxed = _last_closed_box(text, last)
    return boxed if boxed is not None else _last_closed_box(text, 0)


def _last_closed_box(text: str, position: int) -> str | None:
    """The content of the last box (see read_answer) from `position` on."""
    last_start, last = -1, None
    # Where the content of each open brace's box starts; -1 for a brace without a box.
    starts: list[int] = []
    for token in _TOKENS.finditer(text, position):
        if token["brace"]:
            starts.append(token.end())
        elif token["box"]:
            if _UNBRACED.match(text, token.end()):
                last_start, last = token.end(), None
        elif token[0] == "{":
            starts.append(-1)
        elif token[0] == "}" and starts:
            start = starts.pop()
            # A box around the last one opened before it.
            if start > last_start and (inside := text[start : token.start()].strip()):
                last_start, last = start, inside
    if last is None and last_start >= 0 and (rest := _UNBRACED_REST.match(text, last_start)):
        return rest[0].rstrip(".,;:") or None
    return last


def _last_answer_line(text: str) -> str | None:
    end = len(text)
    for label in reversed(list(_ANSWER.finditer(text))):
        lines = (_unwrapped(line[0]) for line in _LINE.finditer(text, label.end(), end))
        answer = next(filter(None, lines), None)
        # A box that is not closed: the response was cut off in the middle of its answer.
        if answer is not None and not _BOX.search(answer):
            return answer
        end = label.start()
    return None


def _unwrapped(line: str) -> str:
    """A line without emphasis, the formula's delimiters and a full stop; empty when nothing else is on it."""
    line = _FULL_STOP.sub("", line.strip().strip("*").strip()).strip("*").strip()
    if any(line in pair for pair in _DELIMITERS):
        return ""
    for opening, closing in _DELIMITERS:
        inside = line[len(opening) : -len(closing)]
        if line.startswith(opening) and line.endswith(closing) and closing not in inside:
            return inside.strip()
    return line
