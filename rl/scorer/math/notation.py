r"""Rewrites notation that math-verify reads wrongly or not at all.

Digits in \text (5\text{7} means 57, not 5 with a unit), 4.5e33, grouped digits (1\,000), mixed numbers in plain text
(1 1/2), recurring decimals, millions.
"""

import re

from rl.scorer.math.units import SPACE

IN_TEXT = r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox)\s?"
_TEXT_DIGITS = re.compile(rf"(?<![\^_]){IN_TEXT}\{{([\d.,]+)\}}")
WIDE_SPACE = rf"(?:{SPACE}|\\q?quad(?![A-Za-z]))"
# Lines that follow each other. \\alpha is a command of an answer with doubled backslashes.
_NEW_LINE = re.compile(r"[,;]?\s*\\\\(?=[\s\d-])")
# \pmod 4, (\text{mod } 4), 7 \bmod 4.
_MOD = r"(?:\\[bp]?mod|\\(?:text|mathrm|operatorname)\s?\{\s*mod\s*\}|(?<![A-Za-z\\])mod)(?![A-Za-z])"
_MODULUS = re.compile(
    rf"{SPACE}*+(?P<opened>\()?{SPACE}*+(?P<word>{_MOD}){SPACE}*+"
    rf"(?:\{{(?P<group>(?:[^{{}}]|\{{[^{{}}]*\}})+)\}}|(?P<plain>\d+|[A-Za-z]))(?(opened){SPACE}*\))"
)
_FULL_STOP = re.compile(r"(?<=[^.\s])(?<!\\right)\.$")
_SPACES_AT_THE_END = ("\\,", "\\;", "\\:", "\\!")
_CHARACTERS = str.maketrans(
    {"°": r"^{\circ}", "½": r"\frac{1}{2}", "⅓": r"\frac{1}{3}", "⅔": r"\frac{2}{3}"}
    | {"¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}"}
    | {chr(ord("０") + digit): str(digit) for digit in range(10)}  # full-width
)
# Not 2e-1, which may be less than twice Euler's number: it needs a point, a mantissa of 1 or an exponent without sign.
_E_NOTATION = re.compile(r"(?<![\w.\\])(\d+\.\d*|\.\d+|1(?=e[-+])|\d+(?=e\d))e([-+]?\d+)(?![\w.])")
_NOTATION = (
    (re.compile(r"√\s*(\d+|\w)"), r"\\sqrt{\1}"),
    (re.compile(r"\\varnothing(?![A-Za-z])"), r"\\emptyset"),
    (re.compile(rf"{SPACE}+(?=\\?%)"), ""),
    # math-verify drops such words if their spaces are outside.
    (re.compile(rf"{WIDE_SPACE}*{IN_TEXT}\{{\s*(or|and)\s*\}}{WIDE_SPACE}*"), r" \\text{ \1 } "),
    (re.compile(rf"{IN_TEXT}\{{\s*([,;])\s*\}}"), r"\1 "),
    (re.compile(r"\\hspace\*?\{[^{}]*\}"), r" \\quad "),
    (re.compile(rf"{IN_TEXT}\{{\s*(\(mod \w+\))\s*\}}"), r"\1"),
    # Space between the rows of a matrix.
    (re.compile(r"\\\\\[\d*\.?\d+(?:pt|mm|cm|em|ex)\]"), r"\\\\"),
    (re.compile(r"^(\d+\\[dt]?frac\{\d+\}\{\d+\})\s*\\?%$"), r"\\frac{\1}{100}"),
    (re.compile(rf"(?<![\w.,}}/^])(\d+){SPACE}+(\d+)/(\d+)(?![\w.])"), r"\1\\frac{\2}{\3}"),
)
_GROUPED = re.compile(rf"(?<![\w.,}}^])[1-9]\d{{0,2}}(?:{SPACE}\d{{3}})+(?![\d,])")
_GROUPS = re.compile(SPACE)
_RECURRING = re.compile(r"(?<![\d.])(\d*)\.(\d*)\\(?:overline|bar)\s*\{\s*(\d+)\s*\}")
_COUNTS = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_COUNT = re.compile(rf"(?<=\d)\s*(?:(\\text\s*\{{)\s*({'|'.join(_COUNTS)})\b(\s*\}})?|\b({'|'.join(_COUNTS)})\b)")


def bare(answer: str) -> str:
    """The text that is compared."""
    text = _TEXT_DIGITS.sub(r"\1", answer).translate(_CHARACTERS)
    text = _E_NOTATION.sub(lambda found: rf"{found[1]} \times 10^{{{int(found[2])}}}", text)
    for pattern, replacement in _NOTATION:
        text = pattern.sub(replacement, text)
    text = _GROUPED.sub(lambda found: _GROUPS.sub("", found[0]), text)
    text = _RECURRING.sub(_recurring, text)
    text = _MODULUS.sub(_modulus, _COUNT.sub(_count, text))
    text = _without_space_at_the_end(text)
    if r"\begin" not in text:
        text = _NEW_LINE.sub(", ", text)
    return _FULL_STOP.sub("", " ".join(text.split()))


def _without_space_at_the_end(text: str) -> str:
    r"""Without blanks, ~, \\ and \, there: a backslash would escape the box's brace."""
    while (shorter := text.rstrip("\\~ \t\r\n")) != text or text.endswith(_SPACES_AT_THE_END):
        text = shorter if shorter != text else text[:-2]
    return text


def _recurring(found: re.Match[str]) -> str:
    r"""0.1\overline{6} as (16 - 1) / 90."""
    whole, once, again = found[1], found[2], found[3]
    numerator = int(whole + once + again) - int(whole + once or "0")
    return rf"\frac{{{numerator}}}{{{'9' * len(again)}{'0' * len(once)}}}"


def _count(found: re.Match[str]) -> str:
    r"""The power of ten for million; other words in its \text stay there."""
    opened, in_text, closed, plain = found.groups()
    rest = opened if opened and not closed else ""
    return rf" \times 10^{{{_COUNTS[in_text or plain]}}}{rest}"


def _modulus(found: re.Match[str]) -> str:
    r"""\pmod{4} where a congruence is meant; \mod 4, a remainder, in 7 \bmod 4."""
    modulus = (found["group"] or found["plain"]).strip()
    congruent = found["opened"] or found["word"] == r"\pmod" or r"\equiv" in found.string
    return rf" \pmod{{{modulus}}}" if congruent else rf" \mod {modulus}"
