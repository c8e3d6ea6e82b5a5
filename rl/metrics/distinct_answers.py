"""Which answers are equal: majorities and the number of distinct correct answers depend on it.

SQL: equal canonical texts (sql_structure), or equal results if they were stored. Math: equal texts after spelling is
normalised; answers with equal values (1/2 and 0.5) are distinct. Custom tasks: equal texts up to white space.
"""

import re

import numpy as np

NO_VOTE = -1
# The response has no answer, or one that cannot be evaluated.
_NO_ANSWER = ("no_answer", "pred_error", "pred_timeout")

_SPELLINGS = [
    (re.compile(r"\\[dt]frac(?![A-Za-z])"), r"\\frac"),
    # \\ ends a row, so that "\\ 2" holds no LaTeX space.
    (re.compile(r"(\\\\)|\\(?:left|right|displaystyle|quad|qquad)(?![A-Za-z])|\\[!,;: ]|~"), r"\1"),
    (re.compile(r"\\(?:text|mathrm|textbf|mathbf)\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"^\$(.*)\$$"), r"\1"),
    (re.compile(r"\s+"), ""),
    (re.compile(r"\.$"), ""),
]
_GROUPED_DIGITS = re.compile(r"^[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?$")
_NUMBER = re.compile(r"^([-+]?)(?=\.?\d)0*(\d*)(?:\.(\d*?)0*)?$")


def answer_key(pred: str | None, outcome: str, kind: str) -> str | None:
    """A text that equal answers share; None for a sample without an answer that can be evaluated.

    Args:
        pred: the answer that the scorer extracted from the response.
        outcome: the scorer's.
        kind: sql, math or task (rl.data.questions.answer_kind).
    """
    if pred is None or outcome in _NO_ANSWER:
        return None
    if kind == "math":
        return canonical_math(pred)
    text = " ".join(pred.split())
    if kind != "sql":
        return text
    from rl.metrics.sql_structure import canonical_sql  # sqlglot loads slowly

    return canonical_sql(pred) or text


def canonical_math(answer: str) -> str:
    r"""27.0 and +27 become 27, .5 becomes 0.5, 1,000 and 1{,}000 become 1000, and \dfrac becomes \frac. White space
    (also LaTeX's), \left, \right, \text and dollar signs are dropped.
    """
    for pattern, spelling in _SPELLINGS:
        answer = pattern.sub(spelling, answer)
    if _GROUPED_DIGITS.match(answer):
        answer = answer.replace(",", "")
    number = _NUMBER.match(answer)
    if not number:
        return answer
    sign, whole, fraction = number.groups()
    value = f"{whole or '0'}.{fraction}" if fraction else whole or "0"
    return "-" + value if sign == "-" and value != "0" else value


def answer_classes(keys: list[str | None]) -> np.ndarray:
    """[n] int: keys numbered from 0 in order of appearance; NO_VOTE for None."""
    numbers: dict[str, int] = {}
    return np.array([NO_VOTE if key is None else numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int32)


def distinct_answers(answer: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """[P] float: distinct answers among a prompt's counted samples; NaN for a prompt with none.

    Args:
        answer: [P, n] int, as answer_classes numbers them.
        counted: [P, n] bool, such as the correct ones.
    """
    different = [len(set(row[taken].tolist())) for row, taken in zip(answer, counted, strict=True)]
    return np.array([number or np.nan for number in different], dtype=float)
