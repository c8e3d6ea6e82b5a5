r"""Writes the arguments of commands in braces: \frac{a}{b} for \frac ab, x^{-3} for x^-3, \sqrt{(2)} for \sqrt(2).

A command takes what TeX takes, with three exceptions, which TeX would print otherwise than they are meant: all digits
after ^, _ and in \frac123 (1/23), a sign after ^ and _, and parentheses after ^ and \sqrt.
"""

import re

_TEXT = r"text(?:bf|it|rm|normal)?|mathrm|mathbf|mathit|mbox|operatorname\*?"
_ONE = (
    r"sqrt|bar|overline|vec|hat|widehat|tilde|widetilde|dot|ddot|overrightarrow|mathbb|Bbb|mathcal|boldsymbol|bm|"
    + _TEXT
)
_COMMAND = re.compile(
    rf"\\(?:{_TEXT}|begin|end)\s*\{{[^{{}}]*\}}"
    rf"|\\(?P<two>[dtc]?frac|[dt]?binom)(?![A-Za-z])|\\(?P<one>{_ONE})(?![A-Za-z])|(?<!\\)(?P<script>[\^_])"
)
_ROOT_INDEX = re.compile(r"\s*\[[^\[\]]*\]")
_NAME = re.compile(r"\\(?!left|right)([A-Za-z]+)")
_SIGNED = re.compile(r"[-+]\s*(?:\d+|[A-Za-z](?![A-Za-z])|(?=\\[dtc]?frac|\{))")
# After \log_ the last digit is the argument, if nothing else can be: \log_28.
_LOG_BASE = re.compile(r"\d(?=\d+\s*(?:$|[-+=,;)}]))|\d+")
_DIGITS = re.compile(r"\d+")


def with_braces(answer: str) -> str:
    r"""The answer with arguments in braces. Text, as in \text{cm^2}, stays as it is."""
    # From the last command to the first, so that a command that is an argument has its own arguments in braces.
    for found in reversed(list(_COMMAND.finditer(answer))):
        if found["two"] or found["one"] or found["script"]:
            rest = answer[found.end() :]
            answer = answer[: found.end()] + _with_arguments(found, answer[: found.start()], rest)
    return answer


def _with_arguments(command: re.Match[str], before: str, rest: str) -> str:
    written = ""
    if command["one"] == "sqrt" and (index := _ROOT_INDEX.match(rest)):
        written, rest = index[0].strip(), rest[index.end() :]
    several = _LOG_BASE if before.endswith(r"\log") else _DIGITS if command["script"] else None
    for _ in range(2 if command["two"] else 1):
        length = _length(rest.lstrip(), several, command)
        if not length:
            break
        rest = rest.lstrip()
        argument, rest = rest[:length], rest[length:]
        written += argument if argument.startswith("{") else f"{{{argument}}}"
        several = _DIGITS if argument.isdigit() and str(command["two"]).endswith("frac") else None
    return written + rest


def _length(rest: str, several: re.Pattern[str] | None, command: re.Match[str]) -> int:
    """How many characters of `rest` are the next argument; 0 if it has none."""
    if rest.startswith("{"):
        return _group(rest, "{", "}")
    if rest.startswith("(") and (command["script"] == "^" or command["one"] == "sqrt"):
        return _group(rest, "(", ")")
    if name := _NAME.match(rest):
        end = name.end()
        if own := _COMMAND.match(rest):
            while end < len(rest) and rest[end] in "{[" and not own["script"]:
                end += max(1, _group(rest[end:], rest[end], "}" if rest[end] == "{" else "]"))
        return end
    if command["script"] and (signed := _SIGNED.match(rest)):
        return (
            signed.end() if signed[0][-1] not in "-+ " else signed.end() + _length(rest[signed.end() :], None, command)
        )
    if several and (digits := several.match(rest)):
        return digits.end()
    return int(rest[:1].isalnum() or rest.startswith(("*", "+", "-", "'")))


def _group(text: str, opening: str, closing: str) -> int:
    """The length of the group that `text` begins with; 0 if it is not closed."""
    depth = 0
    for place, character in enumerate(text):
        if character in (opening, closing) and text[place - 1 : place] != "\\":
            depth += 1 if character == opening else -1
            if depth == 0:
                return place + 1
    return 0
