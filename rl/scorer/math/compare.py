r"""Comparing two answers by math-verify, whose judgement decides: units, percentages, sets and tuples are as it has it.

Decided here is what it misreads:
- Equal texts are equal answers. That is text without blanks at its ends, with single blanks within, and without a full
  stop at its end, which math-verify cannot read either.
- Digits in \text are digits: math-verify drops them as a unit, and would take 5\text{7}, which reads 57, for 5.
- Numbers in a row, such as `5 7`, are no answer to a single number: math-verify adds them.
"""

import re

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify
from math_verify.parser import extract_latex, parse_expr_cached, parse_latex_cached
from sympy import Basic, MatrixBase
from sympy.core.cache import clear_cache

from rl.scorer.math import library  # noqa: F401  (prepares what parse uses)

# What math-verify reads from an answer: expressions, most trusted first, and at last the text itself.
Parsed = tuple[Basic | MatrixBase | str, ...]

_TEXT_DIGITS = re.compile(r"(?<![\^_])\\(?:text|textbf|textrm|mathrm|mathbf|mbox)\s?\{([\d.,]+)\}")
# Not digits that belong to a command, a power or an index: \frac12 3, 2^3 4, \log_2 8.
_IN_A_ROW = re.compile(r"(?<![\w^.,}])\d(?:[\d.,]*\d)?(?:\s|~|\\[ ,;:!])+\.?\d")
_FULL_STOP = re.compile(r"(?<=[^.\s])(?<!\\right)\.$")
# The answer is read already: it is what the box holds. Numbers are looked for only where that is no LaTeX.
_TARGETS = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())


def bare(answer: str) -> str:
    """The text that is compared."""
    return _FULL_STOP.sub("", " ".join(_TEXT_DIGITS.sub(r"\1", answer).split()))


def has_numbers_in_a_row(answer: str) -> bool:
    """Whether nothing but blanks stands between two numbers of a bare answer."""
    return _IN_A_ROW.search(answer) is not None


def parse_answer(answer: str) -> Parsed:
    """What math-verify makes of a bare answer; nothing but text, or nothing, when it cannot read it."""
    return tuple(parse(rf"\boxed{{{answer}}}", _TARGETS, parsing_timeout=None))


def readable(parsed: Parsed) -> bool:
    """Whether an expression was read."""
    return any(not isinstance(item, str) for item in parsed)


def equal(gold: Parsed, pred: Parsed) -> bool:
    """math-verify's verdict. Not symmetric: the gold answer decides how an equation or a set is taken."""
    return verify(list(gold), list(pred), timeout_seconds=None)


def forget() -> None:
    """Empty the caches of sympy and math-verify, which a comparison that was broken off may have left half filled."""
    clear_cache()
    for cached in (parse_latex_cached, parse_expr_cached, extract_latex):
        cached.cache_clear()
