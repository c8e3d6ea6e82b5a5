r"""Rewrites notation that math-verify reads wrongly or not at all: `_REWRITES` has it, in the order that it needs.

Digits in \text are digits (5\text{7} means 57, not 5 with a unit), and other words in \text a unit.
"""

import re
import unicodedata
from collections.abc import Callable
from fractions import Fraction
from itertools import groupby

from rl.scorer.math.arguments import with_braces
from rl.scorer.math.units import SPACE

Match = re.Match[str]

IN_TEXT = r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox)\s?"
WIDE_SPACE = rf"(?:{SPACE}|\\q?quad(?![A-Za-z]))"
_CHARACTERS = str.maketrans(
    {"°": r"^{\circ}", "º": r"^{\circ}", "′": "'", "’": "'", "∶": ":", "⁄": "/", "−": "-", "≈": r"\approx "}
    | {"~": " ", "∞": r"\infty ", "€": " EUR", "£": " GBP", "¥": " JPY", "₹": " INR", "¢": " cents"}
    | {"∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "·": r"\cdot "}
    | {"ℕ": r"\mathbb{N}", "ℤ": r"\mathbb{Z}", "ℚ": r"\mathbb{Q}", "ℝ": r"\mathbb{R}", "ℂ": r"\mathbb{C}"}
    | {"。": ".", "、": ", ", "或": r" \text{ or } ", "和": r" \text{ and } ", "与": r" \text{ and } "}
)
_SPACES_AT_THE_END = ("\\,", "\\;", "\\:", "\\!")
_COUNTS = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_COUNT = "|".join(_COUNTS)
_MIXED = rf"(-?)(\d{{0,18}}){SPACE}*\\[dt]?frac\s*(?:\{{(\d{{1,18}})\}}\{{(\d{{1,18}})\}}|(\d)(\d))"
_MIXED_NUMBER = re.compile(_MIXED)
_STYLE = (
    r"\\(?:(?:text)?color\s?\{[^{}]*\}"
    r"|(?:boldsymbol|bm|pmb|underline|tiny|small|normalsize|large|Large|LARGE|huge|Huge)(?![A-Za-z]))\s*"
)
_IN_BRACES = r"\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"
_MOD = r"(?:\\[bp]?mod|\\(?:text|mathrm|operatorname)\s?\{\s*mod\s*\}|(?<![A-Za-z\\])mod)(?![A-Za-z])"
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_ORDINALS = {"1": "st", "2": "nd", "3": "rd", r"\d": "th"}
_TRIGONOMETRIC = r"\\(?:sin|cos|tan|cot|sec|csc)(?:\^\{\d+\})?\s*"
_FRACTION = r"\\[dt]?frac\{[^{}]*\}\{[^{}]*\}"
_ANGLE = rf"(?:\\left)?\([^()]*\)|\{{[^{{}}]*\{{\\circ\}}[^{{}}]*\}}|{_FRACTION}|\d[\d.]*|\\?[A-Za-z]+"
_RADIANS = r"\cdot \frac{\pi}{180}"
_C = r"(?<![A-Za-z\\])(?:\\(?:text|mathrm|operatorname)\{[CPA]\}|[CPA])"
_COMBINATION = re.compile(
    rf"{_C}_\{{(\d+)\}}\^\{{(\d+)\}}|{_C}\^\{{(\d+)\}}_\{{(\d+)\}}|(?:\{{\}})?[_^]\{{(\d+)\}}\s*{_C}_\{{(\d+)\}}"
)
_FUNCTIONS = "(?:arc)?(?:sin|cos|tan|cot|sec|csc)|(?:sin|cos|tan)h|ln|log|lg|exp|gcd|lcm|max|min|det"
_INEQUALITY = r"(?:[<>≤≥≠]|\\(?:neq?|[lg]eq?|[lg]eqslant|lt|gt)(?![A-Za-z]))"


def _raised(word: str) -> str:
    """A pattern for a word after a number: th, ^{th}, ^{\\text{th}}."""
    in_text = rf"{IN_TEXT}\{{\s*{word}\s*\}}"
    return rf"(?:\^\{{\s*(?:{word}|{in_text})\s*\}}|{in_text}|{word}(?![A-Za-z]))"


def mixed_number(text: str) -> Fraction | None:
    r"""The value of 2\frac{1}{3}, also without a whole part."""
    found = _MIXED_NUMBER.fullmatch(text)
    if not found or not int(found[4] or found[6]):
        return None
    value = int(found[2] or "0") + Fraction(int(found[3] or found[5]), int(found[4] or found[6]))
    return -value if found[1] else value


def _percent_of_mixed_number(found: Match) -> str:
    r"""\frac{100}{3}\% for 33\frac{1}{3}\%."""
    value = mixed_number(found[1])
    if value is None:
        return found[0]
    return rf"{'-' if value < 0 else ''}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}\%"


def _power_of_ten(found: Match) -> str:
    return rf"{found[1]} \times 10^{{{int(found[2])}}}"


def _recurring(found: Match) -> str:
    r"""0.1\overline{6} as (16 - 1) / 90."""
    whole, once, again = found[1], found[2], found[3]
    numerator = int(whole + once + again) - int(whole + once or "0")
    return rf"\frac{{{numerator}}}{{{'9' * len(again)}{'0' * len(once)}}}"


def _count(found: Match) -> str:
    r"""The power of ten for million; other words in its \text stay there."""
    opened, in_text, closed, plain = found.groups()
    rest = opened if opened and not closed else ""
    return rf" \times 10^{{{_COUNTS[in_text or plain]}}}{rest}"


def _modulus(found: Match) -> str:
    r"""\pmod{4} where a congruence is meant; \mod 4, a remainder, in 7 \bmod 4."""
    modulus = (found["group"] or found["plain"]).strip()
    congruent = found["opened"] or found["word"] == r"\pmod" or r"\equiv" in found.string
    return rf" \pmod{{{modulus}}}" if congruent else rf" \mod {modulus}"


def _round_brackets(found: Match) -> str:
    r"""[1, 2) for [1, 2[, and x \in (1, 2) for ]1, 2[, which is not a point."""
    before, left, opens, bounds, right, closes = found.groups(default="")
    if found[0] == found.string and opens + closes == "][":
        before = r"x \in "
    return f"{before}{left}{'[' if opens == '[' else '('}{bounds}{right}{']' if closes == ']' else ')'}"


def _in_radians(found: Match) -> str:
    r"""\sin (30\cdot \frac{\pi}{180}) for \sin 30^{\circ}. Elsewhere the sign of a degree is a unit."""
    function, angle, sign = found.groups()
    if not sign and r"\circ" not in angle:
        return found[0]
    in_radians = angle.replace(r"^{\circ}", _RADIANS) + (_RADIANS if sign else "")
    return f"{function}({in_radians})"


def _degrees(found: Match) -> str:
    r"""\frac{91}{2}^{\circ} for 45^{\circ}30'."""
    degrees, minutes, seconds = (int(number or 0) for number in found.groups())
    value = degrees + Fraction(minutes, 60) + Fraction(seconds, 3600)
    return rf"\frac{{{value.numerator}}}{{{value.denominator}}}^{{\circ}}"


def _lines(found: Match) -> str:
    r"""x=3, y=7 for \begin{aligned}x&=3\\y&=7\end{aligned}, but not for the cases of a function."""
    lines = [line.replace("&", "").strip(" ,;") for line in re.split(r"\\\\", found[2]) if line.strip()]
    return ", ".join(lines) if all("=" in line for line in lines) else found[0]


def _choose(found: Match) -> str:
    r"""\binom{10}{3} for C_{10}^{3} in an answer without other letters, among which C_{10} may be a coefficient."""
    above, below = (int(number) for number in found.groups() if number)
    if found[3] is not None:
        above, below = below, above
    others = re.sub(r"\\[A-Za-z]+", "", _COMBINATION.sub("", found.string))
    if above < below or re.search("[A-Za-z]", others):
        return found[0]
    choices = rf"\binom{{{above}}}{{{below}}}"
    return choices if "C" in found[0] else rf"({choices} \cdot {below}!)"


_REWRITES: tuple[tuple[str, str | Callable[[Match], str]], ...] = (
    # Words in Chinese characters.
    (r"[\u4e00-\u9fff]+", r" \\text{ \g<0>}"),
    # Styles. Braces of a power or an index stay.
    (r"\\(?:(?:display|text|script|scriptscript)style|(?:no)?limits)(?![A-Za-z])\s*", " "),
    (r"\{\s*\\(?:rm|bf|it|sf|tt|sl|cal)(?![A-Za-z])\s*([^{}]*)\}", r"{\\mathrm{\1}}"),
    (rf"(?<![\^_]){_STYLE}{_IN_BRACES}", r"\1"),
    (_STYLE, ""),
    (r"\\(?:text(?:sf|tt|sc|sl|up|normal)|emph|math(?:sf|tt))(?=\s?\{)", r"\\text"),
    (r"\\in\s*(?:\\(?:mathbf|mathrm|text)\s?\{([NZQRC])\}|([NZQRC])(?![A-Za-z]))", r"\\in \\mathbb{\1\2}"),
    # Upright letters, names of functions, ordinal numbers, the word of a truth value.
    (rf"{IN_TEXT}\{{([ei])\}}|\\mathbf\{{([A-Za-z])\}}", r" \1\2"),
    (r"\\(?:mathrm|text)\{(\\pi|π)\}|\\uppi(?![A-Za-z])", r"\\pi "),
    (r"(?<=\d)i(?![A-Za-z])", " i"),
    (rf"\\operatorname\*?\{{({_FUNCTIONS})\}}|\\(?:mathrm|text)\{{(?!sec|min|max)({_FUNCTIONS})\s*\}}", r"\\\1\2 "),
    (r"\\lg(?![A-Za-z])", r"\\log_{10}"),
    (r"\\log_\{\s*e\s*\}", r"\\ln "),
    ("|".join(rf"(?<={digit})\s*{_raised(word)}" for digit, word in _ORDINALS.items()), ""),
    (r"(?i)^(true|false)$", r"\\text{\1}"),
    # Numbers in words.
    (rf"(?i)^(?:{IN_TEXT}\{{\s*)?({'|'.join(_NUMBERS)})\s*\}}?$", lambda found: str(_NUMBERS.index(found[1].lower()))),
    # Dots, which math-verify leaves out, unless they follow the digits of a number.
    (r"\\[lc]?dots[cbmio]?(?![A-Za-z])|\.\.\.", r"\\ldots "),
    # Indices: m_{\max} is m_{\text{max}}.
    (r"(?<=_\{)\s*\\(?:(?:text|mathrm|operatorname)\{\s*(\w+)\s*\}|(max|min))\s*(?=\})", r"\1\2"),
    # math-verify reads e, E and I as constants, without their index.
    (r"(?<![A-Za-z\\])([eEI])(?=_\{)", r"\\text{\1}"),
    (r"\^\{\\degree\}|\^?\\(?:text)?degree(?![A-Za-z])", r"^{\\circ}"),
    # Degrees in functions, degrees with minutes and seconds.
    (r"\^\{(?:\\prime\s*)+\}", lambda found: "'" * found[0].count("prime")),
    (r"(\d+)\^\{\\circ\}\s*(\d+)\s*'(?:\s*(\d+)\s*(?:''|\"))?", _degrees),
    (rf"({_TRIGONOMETRIC})({_ANGLE})(\^\{{\\circ\}})?", _in_radians),
    # Combinations.
    (_COMBINATION.pattern, _choose),
    # 14./5 is 14/5.
    (r"(?<=\d)\.(?=\s*/)", ""),
    (r"^\\approx(?![A-Za-z])", ""),
    # Ratios.
    (rf"(?<=[\d}}])\s*(?:{IN_TEXT}\{{\s*to\s*\}}|(?<![A-Za-z\\])to(?![A-Za-z]))\s*(?=[\d\\])", ":"),
    # The lines of a system.
    (r"(?s)^\\begin\{(aligned|align\*?|gathered|cases)\}(.*)\\end\{\1\}$", _lines),
    # Text.
    (rf"\s*{IN_TEXT}\{{\s*\.\s*\}}$", ""),
    (rf"{IN_TEXT}\{{(?=[^}}]*\s)\s*([,;])\s*\}}", r"\1 "),
    (rf"(?<![\^_]){IN_TEXT}\{{([\d.,]+)\}}", r"\1"),
    # 20\text{ minutes} for \text{20 minutes}, but not for \text{20 or more}.
    (
        rf"^{IN_TEXT}\{{\s*([-+]?\.?\d[\d.,:/]*)\s*"
        r"(?!.*\b(?:or|and|to|than|plus|minus|times|over|squared)\b)([A-Za-z][A-Za-z./ ]*|\\?%)\}$",
        r"\1\\text{ \2}",
    ),
    # math-verify drops such words if their spaces are outside.
    (rf"{WIDE_SPACE}*{IN_TEXT}\{{\s*(or|and)\s*\}}{WIDE_SPACE}*", r" \\text{ \1 } "),
    (rf"{IN_TEXT}\{{\s*([A-Za-z][A-Za-z ]*)\.\s*\}}", r"\\text{\1}"),
    (r"(?i)(?:(?<=:\d\d)\s*|(?<=\d)\s+)([ap])\.?\s?m\.?$", r"\\text{ \1m}"),
    (rf"(?i)^(?:{IN_TEXT}\{{)?\s*no (?:real )?solutions?\s*\}}?$", r"\\emptyset"),
    (rf"(?i)^(?:{IN_TEXT}\{{)?\s*all real(?: number)?s\s*\}}?$", r"\\mathbb{R}"),
    # Signs. Hyphens and dashes are minus signs, but not in 3–5, a range.
    (r"(?<![\d%})\]$])(?<![\d%})\]$] )[–‑‐﹣－]|(?<=^\$)[–‑‐﹣－]|[–‑‐﹣－](?! ?[\d$\\])", "-"),
    (r"(?<![A-Za-z\\])oo(?![A-Za-z])", r"\\infty "),
    (r"√\s*(\d+|\w)", r"\\sqrt{\1}"),
    (r"\\varnothing(?![A-Za-z])", r"\\emptyset"),
    # Units.
    (rf"^\s*(-?)\s*(?:{IN_TEXT}\{{\s*)?(EUR|GBP|JPY|INR|USD|Rs)\.?\s*\}}?\s*([\d.,]+)$", r"\1\3 \2"),
    (
        rf"(?<=[\d)}}\s,])\\[dt]?frac\{{{IN_TEXT}\{{([^{{}}]*)\}}\}}"
        rf"\{{{IN_TEXT}\{{([^{{}}]*)\}}(\^\{{?\d\}}?)?\}}$",
        r"\\text{ \1/\2}\3",
    ),
    # Numbers. Not 2e-1, which may be less than twice Euler's number: it needs a point, a mantissa of 1 or an exponent
    # without sign.
    (r"(?<![\w.\\])(\d+\.\d*|\.\d+|1(?=e[-+])|\d+(?=e\d))e([-+]?\d+)(?![\w.])", _power_of_ten),
    (rf"(?<![\w.,}}/^])(\d+){SPACE}+(\d+)/(\d+)(?![\w.])", r"\1\\frac{\2}{\3}"),
    (rf"(?<![\w.,}}^])[1-9]\d{{0,2}}(?:{SPACE}\d{{3}})+(?![\d,])", lambda found: re.sub(SPACE, "", found[0])),
    (r"(?<![\d.])(\d*)\.(\d*)\\(?:overline|bar)\s*\{\s*(\d+)\s*\}", _recurring),
    (rf"(?<=\d)\s*(?:(\\text\s*\{{)\s*({_COUNT})\b(\s*\}})?|\b({_COUNT})\b)", _count),
    (r"^\((\d+)\)(?=_)", r"\1"),
    (rf"(?:{IN_TEXT}\{{\s*(?:percent|\\?%)\s*\}}|(?<=[\d}}\s])percent)$", r"\\%"),
    (rf"{SPACE}+(?=\\?%)", ""),
    (rf"^({_MIXED})\\?%$", _percent_of_mixed_number),
    # Congruences.
    (rf"{IN_TEXT}\{{\s*(\(mod \w+\))\s*\}}", r"\1"),
    (
        rf"(?P<opened>\({SPACE}*)?(?P<word>{_MOD}){SPACE}*"
        rf"(?:\{{(?P<group>(?:[^{{}}]|\{{[^{{}}]*\}})+)\}}|(?P<plain>\d+|[A-Za-z]))(?(opened){SPACE}*\))",
        _modulus,
    ),
    # Matrices, with space between their rows, and vectors.
    (r"\\\\\[\d*\.?\d+\s*(?:pt|mm|cm|em|ex)\]|\\cr(?![A-Za-z])", r"\\\\"),
    (r"\{smallmatrix\}", "{matrix}"),
    (r"\{Bmatrix\}", "{pmatrix}"),
    (r"\\langle(?![A-Za-z])", "("),
    (r"\\rangle(?![A-Za-z])", ")"),
    # Intervals and sets of real numbers. A comma would mean "and", and \in another set.
    (
        rf"(^|\\(?:in|cup){SPACE}*)(\\left)?([\[\]])([^\[\](),]*,[^\[\](),]*?)(\\right)?([\[\]])(?=$|{SPACE}*\\cup)",
        _round_brackets,
    ),
    (
        r"^(?:\\left)?\\\{\s*[A-Za-z]\s*(?:\\in\s*\\mathbb\s?\{?R\}?\s*)?(?:\\mid(?![A-Za-z])|\\middle\s?\||[|:])"
        rf"(?=.*{_INEQUALITY})"
        r"((?:\\text\{ (?:or|and) \}|,(?=\s*[A-Za-z]\s*(?:≠|\\neq?(?![A-Za-z])))"
        r"|(?!\\(?:in(?![A-Za-z])|mathbb|text|right|\}))[^:|,])+)(?:\\right)?\\\}$",
        r"\1",
    ),
    (r"\\(?:backslash|smallsetminus)(?![A-Za-z])|(?<=\\mathbb\{R\})\s*-\s*(?=(?:\\left)?\\\{)", r"\\setminus "),
    (rf"^[A-Za-z]\s*\\in\s*\\mathbb\{{R\}}\s*,\s*(?=.*{_INEQUALITY})", ""),
    # Lines that follow each other, unless they are rows. \\alpha is a command of an answer with doubled backslashes.
    (r"\\hspace\*?\{[^{}]*\}", r" \\quad "),
    (r"(?s)^(?!.*\\begin).*", lambda found: re.sub(r"[,;]?\s*\\\\(?=[\s\d-])", ", ", found[0])),
)
_COMPILED = tuple((re.compile(pattern), replacement) for pattern, replacement in _REWRITES)
_FULL_STOP = re.compile(r"(?<=[^.\s])(?<!\\right)\.$")


def bare(answer: str) -> str:
    """The text that is compared."""
    text = with_braces(_trimmed(_ordinary(answer).translate(_CHARACTERS)))
    for pattern, replacement in _COMPILED:
        text = pattern.sub(replacement, text)
    return _FULL_STOP.sub("", _trimmed(text))


def _ordinary(text: str) -> str:
    r"""x^{2} for x², \frac{1}{2} for ½, (1,2) for （1，2）: what characters that Unicode derives from others mean."""
    if text.isascii():
        return text
    written = []
    for tag, run in groupby(text.translate(_CHARACTERS), _tag):
        characters = [_meaning(character) if tag.startswith("<") else character for character in run]
        inside = "".join(characters)
        written.append({"<super>": f"^{{{inside}}}", "<sub>": f"_{{{inside}}}"}.get(tag, inside))
    return "".join(written)


def _tag(character: str) -> str:
    """How Unicode derives a character from others: <super>, <fraction>, <wide> ..."""
    return unicodedata.decomposition(character).split(" ")[0]


def _meaning(character: str) -> str:
    tag, *points = unicodedata.decomposition(character).split()
    letters = "".join(chr(int(point, 16)) for point in points)
    over, bar, under = letters.partition("⁄")
    return rf"\frac{{{over}}}{{{under}}}" if bar else _ordinary(letters)


def _trimmed(text: str) -> str:
    r"""With single blanks; without blanks, \\ and \, at the end: a backslash would escape the box's brace."""
    text = " ".join(text.split())
    while (shorter := text.rstrip("\\ ")) != text or text.endswith(_SPACES_AT_THE_END):
        text = shorter if shorter != text else text[:-2]
    return text
