r"""Compares two answers by math-verify, whose judgement decides about units, percentages, sets and tuples.

Three cases that it misreads are decided here:
- Equal texts are equal answers, after blanks are normalised and a full stop at the end is removed, with which
  math-verify reads nothing.
- Digits in \text are digits: math-verify drops them as a unit, and would read 5\text{7}, which means 57, as 5.
- Numbers in a row, such as `5 7`, equal no single number: math-verify would add them.
"""

import re

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify
from math_verify.parser import extract_latex, parse_expr_cached, parse_latex_cached
from sympy import Basic, MatrixBase
from sympy.core.cache import clear_cache

from rl.scorer.math import library  # noqa: F401  (prepares what parse uses)

# What math-verify reads from an answer: expressions, the most trusted first, and finally the text itself.
Parsed = tuple[Basic | MatrixBase | str, ...]

_TEXT_DIGITS = re.compile(r"(?<![\^_])\\(?:text|textbf|textrm|mathrm|mathbf|mbox)\s?\{([\d.,]+)\}")
# Without digits that belong to a command, a power or an index: \frac12 3, 2^3 4, \log_2 8.
_IN_A_ROW = re.compile(r"(?<![\w^.,}])\d(?:[\d.,]*\d)?(?:\s|~|\\[ ,;:!])+\.?\d")
_FULL_STOP = re.compile(r"(?<=[^.\s])(?<!\\right)\.$")
# The answer is already extracted and goes into a box. Only an answer that is not LaTeX is searched for numbers.
_TARGETS = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())


def bare(answer: str) -> str:
    """The text that is compared."""
    return _FULL_STOP.sub("", " ".join(_TEXT_DIGITS.sub(r"\1", answer).split()))


def has_numbers_in_a_row(answer: str) -> bool:
    """Whether only blanks separate two numbers of a bare answer."""
    return _IN_A_ROW.search(answer) is not None


def parse_answer(answer: str) -> Parsed:
    """math-verify's reading of a bare answer: only text, or nothing, if it cannot read it."""
    return tuple(parse(rf"\boxed{{{answer}}}", _TARGETS, parsing_timeout=None))


def readable(parsed: Parsed) -> bool:
    """Whether an expression was read."""
    return any(not isinstance(item, str) for item in parsed)


def equal(gold: Parsed, pred: Parsed) -> bool:
    """math-verify's verdict. It is not symmetric: the gold answer decides how equations and sets are read."""
    return verify(list(gold), list(pred), timeout_seconds=None)


def forget() -> None:
    """Empty the caches of sympy and math-verify, which an interrupted comparison may have left half filled."""
    clear_cache()
    for cached in (parse_latex_cached, parse_expr_cached, extract_latex):
        cached.cache_clear()
