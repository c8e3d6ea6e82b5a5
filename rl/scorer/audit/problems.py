"""The SQL questions of parquet files in the project's row format."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from rl.common.errors import UserError
from rl.scorer.audit.check import Query
from rl.scorer.sql.compare import COMPARISONS, Comparison

_COLUMNS = ["id", "data_source", "reward_model"]
_PROMPT = "prompt"  # optional
_ROWS_PER_BATCH = 1024
_DIFFERENT = re.compile(r"\b(?:different|distinct|unique)\b", re.IGNORECASE)
_SELECT_DISTINCT = re.compile(r"\s*SELECT\s+DISTINCT\b", re.IGNORECASE)


@dataclass(frozen=True)
class Problem:
    """The row at `position` (from 0) of its file.

    prompt: a digest of the prompt, None in a file without prompts. asks_distinct: gold selects DISTINCT rows, and the
    question asks for different ones.
    """

    id: int | str
    file: str
    position: int
    query: Query
    prompt: str | None
    asks_distinct: bool = False


@dataclass
class Dataset:
    """The content of all files. rows: how many. other: how many are not SQL questions, by data_source."""

    rows: int = 0
    problems: list[Problem] = field(default_factory=list)
    other: Counter = field(default_factory=Counter)


def read_problems(files: list[Path]) -> Dataset:
    """The rows of `files`, in order: an SQL question is one whose reward_model.ground_truth has a gold_sql.

    Raises UserError for an unreadable file, a missing column, an unknown cmp_method, and when no row is an SQL
    question.
    """
    dataset = Dataset()
    for file in files:
        for position, row in enumerate(_rows(file)):
            dataset.rows += 1
            truth = row["reward_model"].get("ground_truth") if isinstance(row["reward_model"], dict) else None
            if isinstance(truth, dict) and truth.get("gold_sql") is not None:
                row_id = row["id"] if isinstance(row["id"], int) else str(row["id"])
                db_id = None if truth.get("db_id") is None else str(truth["db_id"])
                query = Query(db_id, str(truth["gold_sql"]), _comparison(truth, f"{file}: row {row_id}"))
                prompt = row.get(_PROMPT)
                digest = hashlib.sha256(repr(prompt).encode("utf-8", "replace")).hexdigest() if prompt else None
                # After the schema, which may have UNIQUE columns.
                question = str(prompt).rpartition("Question:")[2]
                asks = bool(_SELECT_DISTINCT.match(query.gold_sql) and _DIFFERENT.search(question))
                dataset.problems.append(Problem(row_id, str(file), position, query, digest, asks))
            else:
                dataset.other[str(row["data_source"])] += 1
    if not dataset.problems:
        sources = ", ".join(dataset.other) or "no rows"
        raise UserError(
            f"{', '.join(map(str, files))}: none of {dataset.rows} rows is an SQL question ({sources}); give a parquet "
            "whose reward_model.ground_truth has db_id and gold_sql."
        )
    return dataset


def _comparison(truth: dict, row: str) -> Comparison:
    """bird for a file without cmp_method."""
    method = truth.get("cmp_method") or "bird"
    if not isinstance(method, str) or method not in COMPARISONS:
        raise UserError(f"{row} has the cmp_method {method!r}: use {' or '.join(COMPARISONS)}.")
    return cast(Comparison, method)


def _rows(file: Path) -> Iterator[dict]:
    import_parquet()
    from rl.common.parquet_file import open_parquet, rows_in

    with open_parquet(file, _COLUMNS, "make it with the project's data scripts") as parquet:
        prompt = [_PROMPT] if _PROMPT in parquet.schema_arrow.names else []
        yield from rows_in(parquet, [*_COLUMNS, *prompt], _ROWS_PER_BATCH)


def import_parquet():
    """pyarrow.parquet, which a server does not need. Raises UserError if it is not installed."""
    try:
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise UserError("The audit reads parquet with pyarrow; install it: pip install '.[audit]'.") from None
    return pyarrow.parquet
