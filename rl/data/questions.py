"""The question that the scorer needs in order to score responses to a row, by data source."""

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from numbers import Integral
from typing import Any

from rl.common.errors import UserError
from rl.data.benchmarks import DATA_SOURCES, SQL
from rl.scorer.sql.compare import COMPARISONS

_SQL_KEYS = ("db_id", "gold_sql", "cmp_method")

# For tasks of the scorer's configuration (PythonRewardModel): the kind of answers, and the prefix of data_source.
TASK, TASK_PREFIX = "task", "task:"


def scorer_question(data_source: str, ground_truth: Any) -> dict[str, Any]:
    """The question of a scorer request (docs/reference/scorer.md) for a row's data_source and ground truth.

    Args:
        ground_truth: for SQL a mapping with db_id, gold_sql and cmp_method; for math the answer as a text or whole
            number; for a task any JSON value.
    """
    kind = answer_kind(data_source)
    if kind == TASK:
        return {"task": data_source.removeprefix(TASK_PREFIX), "ground_truth": _json_value(ground_truth)}
    return _sql_question(ground_truth) if kind == SQL else _math_question(ground_truth)


def answer_kind(data_source: str) -> str:
    """The kind of answers to rows of a data source: SQL, MATH or TASK.

    Args:
        data_source: task:NAME is a custom task. Other names are compared with DATA_SOURCES in lower case and without
            the organisation before a /, so that HuggingFaceH4/MATH-500 is math-500.
    """
    if data_source.startswith(TASK_PREFIX) and data_source != TASK_PREFIX:
        return TASK
    name = data_source.lower().rsplit("/", 1)[-1]
    for kind, patterns in DATA_SOURCES.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return kind
    known = ", ".join(pattern for patterns in DATA_SOURCES.values() for pattern in patterns)
    raise UserError(
        f"There is no reward for data_source {data_source!r}: use one of {known}, or {TASK_PREFIX}NAME for a task of "
        "your own (docs/tutorials/own-task.md)."
    )


def _json_value(value: Any) -> Any:
    """The value in JSON's types. verl's data set reads a parquet's lists as arrays, which become lists again."""
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=lambda part: part.tolist()))
    except (ValueError, TypeError, AttributeError):
        raise UserError(
            f"reward_model.ground_truth is {str(value)[:80]!r}, which JSON cannot hold: use texts, finite numbers, "
            "lists and objects of them."
        ) from None


def _sql_question(ground_truth: Any) -> dict[str, str]:
    if not isinstance(ground_truth, Mapping):
        raise UserError(
            f"reward_model.ground_truth is {type(ground_truth).__name__}, not an object with {', '.join(_SQL_KEYS)}: "
            "make the parquet again."
        )
    for key in _SQL_KEYS:
        if not isinstance(ground_truth.get(key), str) or not ground_truth[key].strip():
            raise UserError(
                f"reward_model.ground_truth.{key} is {ground_truth.get(key)!r}, not a text: correct the row."
            )
    if ground_truth["cmp_method"] not in COMPARISONS:
        raise UserError(
            f"reward_model.ground_truth.cmp_method is {ground_truth['cmp_method']!r}: use {' or '.join(COMPARISONS)}."
        )
    return {key: ground_truth[key] for key in _SQL_KEYS}


def _math_question(ground_truth: Any) -> dict[str, str]:
    if isinstance(ground_truth, Integral) and not isinstance(ground_truth, bool):
        ground_truth = str(int(ground_truth))
    if not isinstance(ground_truth, str) or not ground_truth.strip():
        # A float is rejected because its text differs from the answer's: 27.0 is 27, and 0.1 + 0.2 has 17 digits.
        raise UserError(
            f"reward_model.ground_truth is {str(ground_truth)[:80]!r} ({type(ground_truth).__name__}), not a text or a "
            "whole number: write the answer as text, such as '27' or '\\frac{1}{2}'."
        )
    return {"ground_truth": ground_truth}
