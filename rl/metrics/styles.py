"""Styles of solutions: the style of a sample, and how many styles a prompt's samples have (paper, Appendix B)."""

import re
from collections.abc import Sequence

import numpy as np

KNOWN_STYLES = ("JOIN", "IN", "EXISTS", "CTE", "AGG")
OTHERS = "Others"
# What a style is read from: the SQL's leading comment, as in the paper, its structure, or the response's first word.
BY_PREFIX, BY_STRUCTURE, BY_OPENING = "prefix", "structure", "opening"

_FIRST_WORD = re.compile(r"\W*(\w+)")
# With what stands between them, if there are several.
_LEADING_COMMENTS = re.compile(r"\s*/\*(.*?)\*/(?!\s*/\*.*?\*/)", re.DOTALL)


def style_of(pred: str | None, known: tuple[str, ...]) -> str:
    """NAME of the leading comment `/*NAME*/`.

    OTHERS if there is no SQL or comment, if the name is unknown, or for several comments in a row (a mix of styles).
    """
    comments = _LEADING_COMMENTS.match(pred or "")
    name = comments[1].strip() if comments else ""
    return name if name in known else OTHERS


def styled(text: str | None, known: tuple[str, ...], styles_by: str) -> str:
    """The style of a text, one of `known` or OTHERS: SQL by its leading comment (style_of) or its syntax tree
    (structure_of), a whole response by its first word."""
    if styles_by == BY_PREFIX:
        return style_of(text, known)
    if styles_by == BY_OPENING:
        first = _FIRST_WORD.match(text or "")
        return first[1] if first and first[1] in known else OTHERS
    from rl.metrics.sql_structure import structure_of  # sqlglot loads slowly

    structure = structure_of(text)
    return structure if structure in known else OTHERS


def announces_styles(queries: Sequence[str], known: tuple[str, ...]) -> bool:
    """Whether most queries begin with the comment of a known style."""
    return 2 * sum(style_of(query, known) != OTHERS for query in queries) > len(queries)


def style_counts(style: np.ndarray, counted: np.ndarray, styles: int) -> np.ndarray:
    """[P, styles] int: count of each style among a prompt's counted samples.

    Args:
        style: [P, n] int, style index per sample, 0 <= index < styles.
        counted: [P, n] bool, which samples count (the correct ones, or all).
        styles: number of styles, including OTHERS.
    """
    return ((style[:, :, None] == np.arange(styles)) & counted[:, :, None]).sum(axis=1)


def distinct_styles(counts: np.ndarray) -> np.ndarray:
    """[P] float: number of styles with a count in [P, styles]; NaN for a prompt with none."""
    distinct = (counts > 0).sum(axis=1).astype(float)
    return np.where(distinct > 0, distinct, np.nan)


def style_diversity(counts: np.ndarray) -> np.ndarray:
    """[P] float: the probability that two of a prompt's samples have different styles; NaN with fewer than two.

    The Gini-Simpson index, drawn without replacement (Simpson, Measurement of Diversity, 1949): its expectation does
    not depend on the number of samples, while number and entropy of the styles grow with it.

    Args:
        counts: [P, styles] int.
    """
    total = counts.sum(axis=1)
    same = (counts * (counts - 1)).sum(axis=1)
    return np.where(total > 1, 1 - same / np.maximum(total * (total - 1), 1), np.nan)


def style_entropy(counts: np.ndarray) -> np.ndarray:
    """[P] float: Shannon entropy in nats of the styles in counts [P, styles]; NaN for a prompt with none.

    It grows with the number of samples: of five equally frequent styles, 2 samples show .55 nats in the mean, and 16
    show 1.47.
    """
    total = counts.sum(axis=1, keepdims=True)
    share = counts / np.maximum(total, 1)
    terms = np.where(counts > 0, share * np.log(np.where(counts > 0, share, 1.0)), 0.0)
    return np.where(total[:, 0] > 0, np.abs(terms.sum(axis=1)), np.nan)
