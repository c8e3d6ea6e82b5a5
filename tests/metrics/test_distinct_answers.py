"""Which answers are equal, and the number of distinct ones."""

import numpy as np
import pytest

from rl.metrics.distinct_answers import NO_VOTE, answer_classes, answer_key, canonical_math, distinct_answers


@pytest.mark.parametrize(
    ("answers", "canonical"),
    [
        (("2x", r"2\,x", r"2\!x", r"2\;x", r"2\:x", r"2\ x", "2~x", r"2\quad x", r"2\qquad x"), "2x"),
        (("27", " 27.0", "027", "27.", "$27$", "27.00", "+27", "+ 27.0"), "27"),
        (("1,000", "1000", "1000.0", "1{,}000", r"1\,000", "+1{,}000.0"), "1000"),
        ((r"\dfrac{1}{2}", r"\frac{1}{2}", r"\tfrac{1}{ 2 }"), r"\frac{1}{2}"),
        ((r"\left( 1, 2 \right)", "(1,2)", r"(1,\,2)"), "(1,2)"),
        ((r"\text{Monday}", "Monday"), "Monday"),
        ((r"\begin{x} 1 \\ 2 \end{x}", r"\begin{x}1\\2\end{x}", r"\begin{x}1\,\\2\end{x}"), r"\begin{x}1\\2\end{x}"),
        (("0", "-0", "0.0"), "0"),
        (("-2.50", "-2.5"), "-2.5"),
        (("-1,234,567", "-1234567.0"), "-1234567"),
        ((".5", "0.5", "+.50", "00.5"), "0.5"),
        (("-.5", "-0.50"), "-0.5"),
    ],
)
def test_spellings_of_one_answer(answers, canonical):
    assert {canonical_math(answer) for answer in answers} == {canonical}


def test_different_answers_stay_different():
    words = r"1,2 (1,2) 12 1.2 -12 \frac{1}{2} 2e3 \leftarrow 1,0000 x X +x + - -x"
    answers = [*words.split(), ""]
    assert len({canonical_math(answer) for answer in answers}) == len(answers)


def test_keys_of_answers():
    assert answer_key(None, "no_answer", kind="sql") is None
    assert answer_key("SELEC", "pred_error", kind="sql") is None
    assert answer_key("SELECT 1", "pred_timeout", kind="sql") is None
    assert answer_key("3 ", "mismatch", kind="math") == "3"
    assert answer_key("select  A from T", "mismatch", kind="sql") == "SELECT a FROM t"
    # SQL that cannot be parsed, and answers to a custom task, are texts.
    assert answer_key("SELECT 1 FROM  (", "match", kind="sql") == "SELECT 1 FROM ("
    assert answer_key("f(x)  =\n1.0", "match", kind="task") == "f(x) = 1.0"


def test_distinct_answers():
    np.testing.assert_array_equal(answer_classes(["b", None, "a", "b"]), [0, NO_VOTE, 1, 0])
    answer = np.array([[0, 1, 0, 2], [0, 0, 0, 0], [0, 1, 2, 3]])
    correct = np.array([[1, 1, 1, 0], [1, 0, 0, 1], [0, 0, 0, 0]], dtype=bool)
    np.testing.assert_array_equal(distinct_answers(answer, correct), [2, 1, np.nan])
