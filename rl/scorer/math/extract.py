"""Reading the answer from a model's response: no evaluation, time linear in the response's length."""

import re

from rl.scorer.response import without_thinking

# A box with its brace, or without; braces; escaped characters, which decide nothing. One or two backslashes before
# `boxed`: a response that went through JSON twice has two.
_TOKENS = re.compile(
    r"""(?P<box>\\\\?(?:boxed|fbox)(?![A-Za-z])\s*+)(?P<brace>\{)? | \\. | \{ | \}""", re.DOTALL | re.VERBOSE
)
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
# `\boxed 5`: something that looks like mathematics, up to a blank.
_UNBRACED = re.compile(r"(?!\\\\?(?:boxed|fbox))(?:[-+(\[\\\d]|\.\d)")
_UNBRACED_REST = re.compile(r"(?:[^\s${}]|\{[^${}]*\})*+")
_ANSWER = re.compile(r"(?<![A-Za-z])answer[ \t]*+(?:\*\*|__)?+[ \t]*+:", re.IGNORECASE)
_LINE = re.compile(r"\S[^\n]*")
_FULL_STOP = re.compile(r"(?<!\\right)\.$")
# Around the answer of a line: the delimiters of formulas, code.
_DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("`", "`"))


def read_answer(response: str) -> str | None:
    r"""The content of the last \boxed{...} (or \fbox), else of the last "Answer:" line, else None.

    The last box is, of those that are closed and not empty, the one that opens last: a response that is cut off, or
    that repeats the prompt's "\boxed{}", keeps the answer that it gave before. Braces nest, escaped ones do not count.
    `\boxed 5` reads 5. "Answer:" is read in any case and may be bold; its answer may be on a later line, if the lines
    between are empty. Emphasis, dollars around it and a full stop are not part of such an answer. The length is not
    limited here: the comparison refuses what is too long. Thoughts (before </think>) hold no answer.
    """
    response = without_thinking(response)
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
    """As read_answer says, of the boxes from `position` on."""
    last_start, last = -1, None
    # Where the content of each open brace's box starts; -1 for a brace of no box.
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
