"""Styles by the leading comment, their counts and their entropy."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.metrics.styles import KNOWN_STYLES, distinct_styles, style_counts, style_diversity, style_entropy, style_of


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


def test_diversity_is_the_probability_that_two_samples_differ():
    counts = np.array([[2, 1, 0], [0, 4, 0], [0, 1, 0], [0, 0, 0]])
    np.testing.assert_allclose(style_diversity(counts), [2 / 3, 0, np.nan, np.nan])


@given(st.lists(st.integers(0, 2), min_size=3, max_size=7), st.data())
def test_diversity_does_not_depend_on_the_number_of_samples(styles, data):
    """Its mean over all subsets of a size is its value on all samples."""
    size = data.draw(st.integers(2, len(styles)))
    whole, parts = ([np.bincount(part, minlength=3) for part in of] for of in ([styles], combinations(styles, size)))
    assert style_diversity(np.array(parts)).mean() == pytest.approx(style_diversity(np.array(whole))[0])
