"""Solution styles: which way of solving a sample took, and how many ways survive (paper, Appendix B)."""

import re

import numpy as np

from rl.metrics.sql_structure import structure_of

KNOWN_STYLES = ("JOIN", "IN", "EXISTS", "CTE", "AGG")
OTHERS = "Others"
# How a style is read: from the comment that opens the SQL, as in the paper, or from how the SQL is built.
BY_PREFIX, BY_STRUCTURE = "prefix", "structure"

_LEADING_COMMENT = re.compile(r"\s*/\*(.*?)\*/", re.DOTALL)


def style_of(pred: str | None, known: tuple[str, ...] = KNOWN_STYLES) -> str:
    """The NAME of the comment `/*NAME*/` that opens the SQL.

    No SQL, no comment, an unknown name, or several comments in a row (a mix of styles) count as OTHERS.
    """
    names = _leading_comments(pred or "")
    return names[0] if len(names) == 1 and names[0] in known else OTHERS


def styled(pred: str | None, known: tuple[str, ...], styles_by: str) -> str:
    """One of `known`, or OTHERS, by the comment in front (style_of) or by the syntax tree (sql_tree.structure_of)."""
    if styles_by == BY_PREFIX:
        return style_of(pred, known)
    structure = structure_of(pred)
    return structure if structure in known else OTHERS


def _leading_comments(sql: str) -> list[str]:
    names, position = [], 0
    while found := _LEADING_COMMENT.match(sql, position):
        names.append(found.group(1).strip())
        position = found.end()
    return names


def style_counts(style: np.ndarray, counted: np.ndarray, styles: int) -> np.ndarray:
    """[P, styles] int: how often each style occurs among a prompt's counted samples.

    Args:
        style: [P, n] int, index of each sample's style, 0 <= index < styles.
        counted: [P, n] bool, which samples count (the correct ones, or all).
        styles: number of styles, OTHERS included.
    """
    return np.stack([((style == index) & counted).sum(axis=1) for index in range(styles)], axis=1)


def distinct_styles(counts: np.ndarray) -> np.ndarray:
    """[P] float: number of styles that occur in counts [P, styles]; NaN for a prompt with none."""
    distinct = (counts > 0).sum(axis=1).astype(float)
    return np.where(distinct > 0, distinct, np.nan)


def style_entropy(counts: np.ndarray) -> np.ndarray:
    """[P] float: Shannon entropy in nats of the styles in counts [P, styles]; NaN for a prompt with none."""
    total = counts.sum(axis=1, keepdims=True)
    share = counts / np.maximum(total, 1)
    terms = np.where(counts > 0, share * np.log(np.where(counts > 0, share, 1.0)), 0.0)
    return np.where(total[:, 0] > 0, np.abs(terms.sum(axis=1)), np.nan)
