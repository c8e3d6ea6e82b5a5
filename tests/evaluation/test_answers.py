"""Which answers count as one, and how different responses are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.metrics.distinct_answers import NO_VOTE, answer_classes, answer_key, canonical_math, distinct_answers
from rl.metrics.distinct_n import distinct_n


@pytest.mark.parametrize(
    ("answers", "canonical"),
    [
        (("27", " 27.0", "027", "27.", "$27$", "27.00"), "27"),
        (("1,000", "1000", "1000.0"), "1000"),
        ((r"\dfrac{1}{2}", r"\frac{1}{2}", r"\tfrac{1}{ 2 }"), r"\frac{1}{2}"),
        ((r"\left( 1, 2 \right)", "(1,2)", r"(1,\,2)"), "(1,2)"),
        ((r"\text{Monday}", "Monday"), "Monday"),
        (("0", "-0", "0.0"), "0"),
        (("-2.50", "-2.5"), "-2.5"),
        ((".5",), ".5"),
    ],
)
def test_spellings_of_one_answer(answers, canonical):
    assert {canonical_math(answer) for answer in answers} == {canonical}


def test_different_answers_stay_different():
    answers = ["1,2", "(1,2)", "12", "1.2", "-12", r"\frac{1}{2}", "2e3", r"\leftarrow", "1,0000", "x", "X"]
    assert len({canonical_math(answer) for answer in answers}) == len(answers)


@settings(deadline=None)
@given(st.integers(-(10**9), 10**9))
def test_a_number_is_one_answer_however_it_is_grouped(number):
    assert canonical_math(f"{number:,}") == canonical_math(str(number)) == canonical_math(f"{number}.0") == str(number)


def test_what_does_not_vote():
    assert answer_key(None, "no_answer", kind="sql") is None
    assert answer_key("SELEC", "pred_error", kind="sql") is None
    assert answer_key("SELECT 1", "pred_timeout", kind="sql") is None
    assert answer_key("3 ", "mismatch", kind="math") == "3"
    assert answer_key("select  A from T", "mismatch", kind="sql") == "SELECT a FROM t"


def test_sql_that_cannot_be_parsed_counts_as_its_text():
    assert answer_key("SELECT 1 FROM  (", "match", kind="sql") == "SELECT 1 FROM ("


def test_answers_to_a_task_of_ones_own_are_texts():
    assert answer_key("f(x)  =\n1.0", "match", kind="task") == "f(x) = 1.0"


def test_classes_number_equal_answers_alike():
    np.testing.assert_array_equal(answer_classes(["b", None, "a", "b"]), [0, NO_VOTE, 1, 0])


def test_distinct_answers():
    answer = np.array([[0, 1, 0, 2], [0, 0, 0, 0], [0, 1, 2, 3]])
    correct = np.array([[1, 1, 1, 0], [1, 0, 0, 1], [0, 0, 0, 0]], dtype=bool)
    np.testing.assert_array_equal(distinct_answers(answer, correct), [2, 1, np.nan])


def test_distinct_n_by_hand():
    # Tokens a b a, a b: unigrams 2 of 5, bigrams ab ba ab: 2 of 3, trigrams aba: 1 of 1, no 4-gram.
    np.testing.assert_allclose(distinct_n([[7, 9, 7], [7, 9]]), [2 / 5, 2 / 3, 1, np.nan])
    assert np.isnan(distinct_n([])).all() and np.isnan(distinct_n([[], []])).all()


responses = st.lists(st.lists(st.integers(0, 3) | st.integers(0, 2**17), max_size=9), min_size=1, max_size=5)


@settings(deadline=None)
@given(responses)
def test_distinct_n_counts_n_grams(drawn):
    for order, share in enumerate(distinct_n(drawn), start=1):
        grams = [tuple(r[i : i + order]) for r in drawn for i in range(len(r) - order + 1)]
        if grams:
            assert share == pytest.approx(len(set(grams)) / len(grams)) and 0 < share <= 1
        else:
            assert np.isnan(share)
