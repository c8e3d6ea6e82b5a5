r"""Reference answers of the math benchmarks in the form that the scorer reads (docs/reference/scorer.md).

A reference is a text. Whole numbers have no decimal point, and 4.5e33 becomes 4.5 \times 10^{33}, which math-verify can
read. What gives no reference raises BadRecord.
"""

import math
import re
from typing import Any

from rl.data.prepare.row_writer import BadRecord
from rl.scorer.answers import read_answer

_EXACT_FLOATS = 2**53
# A whole number, with zeros before it and behind a decimal point.
_WHOLE_NUMBER = re.compile(r"^([-+]?)0*([0-9]+?)(?:\.0+)?$")
_E_NOTATION = re.compile(r"(?<![\w.\\])(?P<mantissa>-?(?:\d+(?:\.\d*)?|\.\d+))[eE](?P<exponent>[-+]?\d+)(?![\w.])")
_UNESCAPED_DOLLAR = re.compile(r"(?<!\\)\$")
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")


def answer_text(value: Any) -> str:
    """The text of an answer in a separate field, which is a text or a number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadRecord("its answer is neither a text nor a number")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadRecord("its answer is not a finite number")
        exact = value.is_integer() and abs(value) < _EXACT_FLOATS
        return str(int(value)) if exact else without_e_notation(repr(value))
    text = _WHOLE_NUMBER.sub(r"\1\2", _without_dollars(str(value).strip()))
    if not text:
        raise BadRecord("its answer is empty")
    return text


def several_answers(values: Any, multiple: bool) -> str:
    """One text for a list of answers, such as OlympiadBench's final_answer.

    Args:
        multiple: whether all list items together are the answer, in any order.
    """
    if not isinstance(values, list) or not values:
        raise BadRecord("it has no final answer")
    if len(values) > 1 and not multiple:
        raise BadRecord("it has several final answers, but is not marked so")
    return ", ".join(map(answer_text, values))


def boxed_answer(solution: Any) -> str:
    r"""The last \boxed{...} of a solution."""
    answer = read_answer(solution) if isinstance(solution, str) and _BOX.search(solution) else None
    if answer is None:
        raise BadRecord("its solution has no boxed answer")
    return without_e_notation(answer_text(answer))


def gsm8k_answer(solution: Any) -> str:
    """The text after the last #### of a solution, without commas between digits."""
    marker = "####"
    if not isinstance(solution, str) or marker not in solution:
        raise BadRecord(f"its solution has no {marker} before the answer")
    return answer_text(solution.rsplit(marker, 1)[1].replace(",", ""))


def without_e_notation(text: str) -> str:
    r"""Write 4.5e33 as 4.5 \times 10^{33}."""
    return _E_NOTATION.sub(lambda match: rf"{match['mantissa']} \times 10^{{{int(match['exponent'])}}}", text)


def _without_dollars(text: str) -> str:
    """The text without dollar signs around all of it."""
    if len(text) > 1 and text[0] == text[-1] == "$" and len(_UNESCAPED_DOLLAR.findall(text)) in (2, 4):
        inner = text.strip("$")
        if not _UNESCAPED_DOLLAR.search(inner) and not inner.endswith("\\"):
            return inner.strip()
    return text
