"""What the scorer must know of a dataset row to grade an answer to it, by data source."""

from collections.abc import Callable, Mapping
from typing import Any

from verl.dph.errors import UserError

_SQL_KEYS = ("db_id", "gold_sql", "cmp_method")
_SQL_COMPARISONS = ("bird", "spider")


def scorer_question(data_source: str, ground_truth: Any) -> dict[str, str]:
    """The `extra` object of a scorer request (SCORER.md) for a row's data_source and reward_model.ground_truth.

    Raises:
        UserError: an unknown data source, or a ground truth that lacks a key.
    """
    build = _QUESTIONS.get(data_source)
    if build is None:
        raise UserError(
            f"There is no reward for data_source {data_source!r}: use one of {', '.join(_QUESTIONS)}, or add it to "
            "verl/dph/reward/questions.py."
        )
    return build(ground_truth)


def _sql_question(ground_truth: Any) -> dict[str, str]:
    if not isinstance(ground_truth, Mapping):
        raise UserError(
            f"reward_model.ground_truth is {type(ground_truth).__name__}, not an object with {', '.join(_SQL_KEYS)}: "
            "make the parquet anew."
        )
    for key in _SQL_KEYS:
        if not isinstance(ground_truth.get(key), str) or not ground_truth[key].strip():
            raise UserError(f"reward_model.ground_truth.{key} is {ground_truth.get(key)!r}, not a text: mend the row.")
    if ground_truth["cmp_method"] not in _SQL_COMPARISONS:
        raise UserError(
            f"reward_model.ground_truth.cmp_method is {ground_truth['cmp_method']!r}: "
            f"use {' or '.join(_SQL_COMPARISONS)}."
        )
    return {key: ground_truth[key] for key in _SQL_KEYS}


_QUESTIONS: dict[str, Callable[[Any], dict[str, str]]] = {
    "sql": _sql_question,
    "bird": _sql_question,
    "spider": _sql_question,
}
