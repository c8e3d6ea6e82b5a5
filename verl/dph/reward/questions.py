"""What the scorer must know of a dataset row to grade an answer to it, by data source."""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from numbers import Integral
from typing import Any

from verl.dph.errors import UserError

_SQL_KEYS = ("db_id", "gold_sql", "cmp_method")
_SQL_COMPARISONS = ("bird", "spider")


def scorer_question(data_source: str, ground_truth: Any) -> dict[str, str]:
    """The question of a scorer request (docs/scorer.md) for a row's data_source and reward_model.ground_truth.

    Args:
        data_source: its name is compared with DATA_SOURCES in lower case and without the organisation before a /, so
            that HuggingFaceH4/MATH-500 is math-500.
        ground_truth: for SQL a mapping of db_id, gold_sql and cmp_method, for math the answer as text or whole number.

    Raises:
        UserError: an unknown data source, or a ground truth of another kind.
    """
    name = data_source.lower().rsplit("/", 1)[-1]
    for build, patterns in DATA_SOURCES.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return build(ground_truth)
    known = ", ".join(pattern for patterns in DATA_SOURCES.values() for pattern in patterns)
    raise UserError(
        f"There is no reward for data_source {data_source!r}: use one of {known}, or add it to "
        "verl/dph/reward/questions.py."
    )


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


def _math_question(ground_truth: Any) -> dict[str, str]:
    if isinstance(ground_truth, Integral) and not isinstance(ground_truth, bool):
        ground_truth = str(int(ground_truth))
    if not isinstance(ground_truth, str) or not ground_truth.strip():
        # A float is refused because its text is not the answer's: 27.0 is 27, and 0.1 + 0.2 has 17 digits.
        raise UserError(
            f"reward_model.ground_truth is {str(ground_truth)[:80]!r} ({type(ground_truth).__name__}), not a text or a "
            "whole number: write the answer as text, such as '27' or '\\frac{1}{2}'."
        )
    return {"ground_truth": ground_truth}


# docs/configuration.md has this table.
DATA_SOURCES: dict[Callable[[Any], dict[str, str]], tuple[str, ...]] = {
    _sql_question: ("sql", "bird", "spider"),
    _math_question: (
        "math",
        "math_dapo*",
        "math-lighteval",
        "math500",
        "math-500",
        "math_500",
        "aime*",
        "amc*",
        "olympiadbench*",
        "minerva*",
        "college_math*",
        "gsm8k*",
    ),
}
