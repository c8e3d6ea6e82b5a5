"""Variety of responses: answer equivalence, distinct-n and solution styles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.metrics.distinct_answers import NO_VOTE, answer_classes, answer_key, canonical_math, distinct_answers
from rl.metrics.distinct_n import distinct_n
from rl.metrics.styles import KNOWN_STYLES, distinct_styles, style_counts, style_entropy, style_of


@pytest.mark.parametrize(
    ("answers", "canonical"),
    [
        (("2x", r"2\,x", r"2\!x", r"2\;x", r"2\:x", r"2\ x", "2~x", r"2\quad x", r"2\qquad x"), "2x"),
        (("27", " 27.0", "027", "27.", "$27$", "27.00"), "27"),
        (("1,000", "1000", "1000.0"), "1000"),
        ((r"\dfrac{1}{2}", r"\frac{1}{2}", r"\tfrac{1}{ 2 }"), r"\frac{1}{2}"),
        ((r"\left( 1, 2 \right)", "(1,2)", r"(1,\,2)"), "(1,2)"),
        ((r"\text{Monday}", "Monday"), "Monday"),
        (("0", "-0", "0.0"), "0"),
        (("-2.50", "-2.5"), "-2.5"),
        (("-1,234,567", "-1234567.0"), "-1234567"),
        ((".5",), ".5"),
    ],
)
def test_spellings_of_one_answer(answers, canonical):
    assert {canonical_math(answer) for answer in answers} == {canonical}


def test_different_answers_stay_different():
    answers = ["1,2", "(1,2)", "12", "1.2", "-12", r"\frac{1}{2}", "2e3", r"\leftarrow", "1,0000", "x", "X"]
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


def test_distinct_n_by_hand():
    # Tokens a b a, a b: unigrams 2 of 5, bigrams ab ba ab: 2 of 3, trigrams aba: 1 of 1, no 4-gram.
    np.testing.assert_allclose(distinct_n([[7, 9, 7], [7, 9]]), [2 / 5, 2 / 3, 1, np.nan])
    assert np.isnan(distinct_n([])).all() and np.isnan(distinct_n([[], []])).all()


responses = st.lists(st.lists(st.integers(0, 3) | st.integers(0, 2**17), max_size=9), min_size=1, max_size=5)


@given(responses)
def test_distinct_n_counts_n_grams(drawn):
    for order, share in enumerate(distinct_n(drawn), start=1):
        grams = [tuple(r[i : i + order]) for r in drawn for i in range(len(r) - order + 1)]
        if grams:
            assert share == pytest.approx(len(set(grams)) / len(grams)) and 0 < share <= 1
        else:
            assert np.isnan(share)


@pytest.mark.parametrize(
    ("pred", "style"),
    [
        ("/*JOIN*/ SELECT 1", "JOIN"),
        ("  \n/* CTE */\nWITH t AS (SELECT 1) SELECT * FROM t", "CTE"),
        ("SELECT 1 /*JOIN*/", "Others"),
        ("/*join*/ SELECT 1", "Others"),
        ("/*JOIN*/ /*IN*/ SELECT 1", "Others"),
        (None, "Others"),
    ],
)
def test_style_of(pred, style):
    assert style_of(pred, KNOWN_STYLES) == style
    assert style_of(pred, ("A",)) == "Others" and style_of("/*A*/ SELECT 1", ("A", "B")) == "A"


def test_counts_distinct_styles_and_entropy():
    style = np.array([[0, 0, 1, 2], [1, 1, 1, 1], [2, 0, 1, 2]])
    correct = np.array([[True, True, True, False], [True, True, True, True], [False, False, False, False]])
    counts = style_counts(style, correct, 3)
    np.testing.assert_array_equal(counts, [[2, 1, 0], [0, 4, 0], [0, 0, 0]])
    np.testing.assert_array_equal(distinct_styles(counts), [2, 1, np.nan])
    # Two thirds and one third: ln 3 - (2/3) ln 2.
    np.testing.assert_allclose(style_entropy(counts), [np.log(3) - 2 / 3 * np.log(2), 0, np.nan], rtol=1e-15)
    assert style_entropy(np.array([[2, 2, 2, 2, 2]]))[0] == pytest.approx(np.log(5))
