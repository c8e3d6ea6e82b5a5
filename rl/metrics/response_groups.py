"""Pass@k, majority and styles of groups of responses, which training logs for its rollouts and its validation.

The definitions are those of the report (rl.evaluation.analysis.prompt_metrics), with two exceptions that save time in a
step: at most about MAX_PARSED distinct queries are parsed, and SQL votes by its text instead of its result.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from rl.metrics.distinct_answers import answer_classes, answer_key
from rl.metrics.majority import MOST_SAMPLES, majority_at_k
from rl.metrics.pass_at_k import k_values, pass_at_k
from rl.metrics.styles import (
    BY_PREFIX,
    BY_STRUCTURE,
    KNOWN_STYLES,
    OTHERS,
    announces_styles,
    distinct_styles,
    style_entropy,
    styled,
)

# About this many distinct queries are parsed per call. BIRD's take about 2 ms each.
MAX_PARSED = 512
STYLE_SHARE = "style/"  # + the style's name
_NAMES = (*KNOWN_STYLES, OTHERS)


@dataclass(frozen=True)
class Response:
    """A scored response.

    Attributes:
        kind: the answer's: sql, math or task.
        pred: the extracted answer; None if there is none, or if the reward function does not return it.
        outcome: the scorer's; empty if another reward function was used.
    """

    correct: bool
    kind: str
    pred: str | None = None
    outcome: str = ""


Group = Sequence[Response]  # of one prompt


def mean_pass_at_k(counts: Iterable[tuple[int, int]], n: int) -> dict[str, float]:
    """{"pass@k": mean over the prompts with at least k samples}, for k_values(n).

    Args:
        counts: (samples, correct samples) of each prompt; fewer than n samples if rollouts failed.
        n: samples per prompt in the settings.
    """
    found = np.array(list(counts), dtype=int).reshape(-1, 2)
    means = {}
    for k in k_values(n):
        of_sizes = [(size, found[found[:, 0] == size, 1]) for size in np.unique(found[:, 0]) if size >= k]
        if of_sizes:
            means[f"pass@{k}"] = float(np.concatenate([pass_at_k(c, int(size), k) for size, c in of_sizes]).mean())
    return means


def mean_majority(groups: Iterable[Group], n: int) -> dict[str, float]:
    """{"maj@n": mean over the prompts with n samples}; empty above MOST_SAMPLES, or if no response can vote.

    Answers are equal if their texts are: SQL and custom tasks up to white space, math after spelling is normalised.
    """
    if n > MOST_SAMPLES:
        return {}
    whole = [group for group in groups if len(group) == n]
    # Parsing a query takes milliseconds, and a validation has thousands. The answer to a task is compared as a text.
    keys = [[answer_key(r.pred, r.outcome, "task" if r.kind == "sql" else r.kind) for r in group] for group in whole]
    if not any(key is not None for of_prompt in keys for key in of_prompt):
        return {}
    answers = np.array([answer_classes(of_prompt) for of_prompt in keys])
    correct = np.array([[response.correct for response in group] for group in whole])
    return {f"maj@{n}": float(majority_at_k(answers, correct, [n])[n].mean())}


def style_metrics(groups: Iterable[Group]) -> dict[str, float]:
    """Styles of the correct SQL; {} if there is none.

    A style is the query's leading comment if most correct queries begin with a known one (BY_PREFIX), else its
    structure (BY_STRUCTURE).

    Returns:
        style_entropy: entropy in nats of the styles of a prompt's correct queries, mean over the prompts with one.
        distinct_structures: number of structures among them, mean over the same prompts. style/<name>: share of all
        correct queries. With more than MAX_PARSED distinct queries, only every m-th prompt's structures are counted.
    """
    by_prompt = [[r.pred for r in group if r.correct and r.kind == "sql" and r.pred] for group in groups]
    by_prompt = [queries for queries in by_prompt if queries]
    if not by_prompt:
        return {}
    structures = _counts(_within_limit(by_prompt), BY_STRUCTURE)
    by_prefix = announces_styles([query for queries in by_prompt for query in queries], KNOWN_STYLES)
    styles = _counts(by_prompt, BY_PREFIX) if by_prefix else structures
    shares = dict(zip(_NAMES, (styles.sum(axis=0) / styles.sum()).tolist(), strict=True))
    return {
        "style_entropy": float(style_entropy(styles).mean()),
        "distinct_structures": float(distinct_styles(structures).mean()),
        **{STYLE_SHARE + name: share for name, share in shares.items()},
    }


def _within_limit(by_prompt: list[list[str]]) -> list[list[str]]:
    """Every m-th prompt, so that together they have about MAX_PARSED distinct queries or fewer."""
    distinct = len({query for queries in by_prompt for query in queries})
    return by_prompt[:: ceil(distinct / MAX_PARSED)]


def _counts(by_prompt: list[list[str]], styles_by: str) -> np.ndarray:
    """[P, styles] int: number of each prompt's queries in each style of _NAMES."""
    counts = [Counter(styled(query, KNOWN_STYLES, styles_by) for query in queries) for queries in by_prompt]
    return np.array([[of_prompt[name] for name in _NAMES] for of_prompt in counts])
