"""distinct-n by hand and against counting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.metrics.distinct_n import distinct_n


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
