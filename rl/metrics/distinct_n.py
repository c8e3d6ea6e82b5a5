"""distinct-n: share of distinct n-grams among response tokens (Li et al. 2016, arXiv 1510.03055)."""

from collections.abc import Sequence

import numpy as np

ORDERS = (1, 2, 3, 4)


def distinct_n(responses: Sequence[Sequence[int]]) -> np.ndarray:
    """[4] float64: distinct n-grams over all n-grams of a prompt's responses together, for n = 1..4.

    Longer responses repeat more: read it beside the response length. Comparable only between models with one tokenizer.

    Args:
        responses: token ids per sample.

    Returns:
        In (0, 1]; NaN if no response has n tokens.
    """
    # An n-gram is numbered by the pair (number of its first n-1 tokens, last token).
    grams = [_numbered(np.concatenate([np.asarray(r, dtype=np.int64) for r in responses]))] if responses else []
    ends = np.cumsum([len(r) for r in responses])
    shares = []
    for order in ORDERS:
        if order > 1 and grams:
            numbers, tokens = grams[-1], grams[0]
            pairs = numbers[:-1].astype(np.int64) * (tokens.max(initial=0) + 1) + tokens[order - 1 :]
            grams.append(_numbered(pairs))
        starts = _starts(ends, order)
        shares.append(np.unique(grams[-1][starts]).size / starts.size if starts.size else np.nan)
    return np.array(shares)


def _numbered(values: np.ndarray) -> np.ndarray:
    return np.unique(values, return_inverse=True)[1].reshape(-1)


def _starts(ends: np.ndarray, order: int) -> np.ndarray:
    """Start positions of the n-grams that do not reach into the next response."""
    begins = np.concatenate([[0], ends[:-1]]) if ends.size else ends
    parts = [np.arange(begin, end - order + 1) for begin, end in zip(begins, ends, strict=True)]
    return np.concatenate([*parts, []]).astype(int)
