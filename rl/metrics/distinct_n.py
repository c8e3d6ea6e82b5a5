"""distinct-n: share of distinct n-grams among response tokens (Li et al. 2016, arXiv 1510.03055)."""

from collections.abc import Sequence

import numpy as np

ORDERS = (1, 2, 3, 4)


def distinct_n(responses: Sequence[Sequence[int]]) -> np.ndarray:
    """[4] float64: distinct n-grams over all n-grams of a prompt's responses together, for n = 1..4.

    Longer responses repeat more, so read it together with the response length. Models are comparable only if they have
    the same tokenizer.

    Args:
        responses: token ids per sample.

    Returns:
        In (0, 1]; NaN if no response has n tokens.
    """
    tokens = np.array([token for response in responses for token in response], dtype=np.int64)
    # Tokens from each position to the end of its response.
    left = np.concatenate([np.arange(len(response), 0, -1) for response in responses] or [tokens])
    shares = []
    grams = np.zeros_like(tokens)  # number of the n-gram at each position
    for order in ORDERS:
        # An n-gram is numbered by the pair (number of its first n-1 tokens, last token).
        pairs = grams * (tokens.max(initial=0) + 1) + np.roll(tokens, 1 - order)
        grams = np.unique(pairs, return_inverse=True)[1].reshape(-1)
        whole = grams[left >= order]
        shares.append(np.unique(whole).size / whole.size if whole.size else np.nan)
    return np.array(shares)
