"""Gold as stored results: the `spider2` comparison with tables in CSV files; a result may match any of them.

As in Spider 2.0's evaluation (evaluate.py of xlang-ai/Spider2), every selected column of a stored table must equal some
predicted column, numbers within NUMBER_TOLERANCE; further predicted columns and the order of columns do not count. With
ignore_order each column is sorted by itself.

Both sides are read as pandas reads a CSV: a column has numbers if each of its texts that is not missing is a number,
else texts; True and False are numbers.
"""

import csv
import math
import os
from collections.abc import Iterable, Sequence
from itertools import islice

from rl.scorer.sql.execute import DatabaseFault, Limits, Row, StatementError

NUMBER_TOLERANCE = 1e-2
# Texts that pandas reads as missing.
_MISSING = frozenset(
    """#N/A #NA -1.#IND -1.#QNAN -NaN -nan 1.#IND 1.#QNAN <NA> N/A NA NULL NaN None n/a nan null""".split()  # noqa: SIM905
) | {"", "#N/A N/A"}
_TRUTHS = {"true": 1.0, "false": 0.0}

Column = tuple[float | str | None, ...]


def read_table(path: str, positions: Sequence[int], limits: Limits) -> list[Column]:
    """The columns at `positions` of a CSV file with a header; all columns if `positions` is empty.

    Raises:
        StatementError: the file is not such a table, lacks a position or breaks `limits`.
        DatabaseFault: the file cannot be read.
    """
    name = os.path.basename(path)
    csv.field_size_limit(limits.value_bytes)
    try:
        if os.stat(path).st_size > limits.bytes:
            raise StatementError(f"{name} has more than {limits.bytes} bytes")
        with open(path, encoding="utf-8-sig", errors="ignore", newline="") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            rows = list(islice((row for row in reader if row), limits.rows + 1))
    except OSError as error:
        raise DatabaseFault(str(error)) from None
    except csv.Error as error:
        raise StatementError(f"{name} is not CSV: {error}") from None
    if len(rows) > limits.rows:
        raise StatementError(f"{name} has more than {limits.rows} rows")
    if any(len(row) != len(header) for row in rows):
        raise StatementError(f"{name} has a row of another length than its header, {len(header)} columns")
    if not header or max(positions, default=0) >= len(header):
        raise StatementError(f"{name} has {len(header)} columns, not those at {list(positions)}")
    return [_typed([row[position] for row in rows]) for position in positions or range(len(header))]


def equal_stored(tables: list[list[Column]], ordered: bool, predicted: list[Row]) -> bool:
    """Whether the predicted rows match one of the tables."""
    columns = [_typed(map(_text, column)) for column in zip(*predicted, strict=True)]
    if not ordered:
        columns = list(map(_sorted, columns))
    for table in tables:
        wanted = table if ordered else map(_sorted, table)
        if all(not column and not predicted or any(_same(column, other) for other in columns) for column in wanted):
            return True
    return False


def _typed(texts: Iterable[str]) -> Column:
    found = [None if text in _MISSING else text for text in texts]
    present = [text for text in found if text is not None]
    if all(text.lower() in _TRUTHS for text in present):
        return tuple(None if text is None else _TRUTHS[text.lower()] for text in found)
    try:
        numbers = {text: _number(text) for text in present}
    except ValueError:
        return tuple(found)
    return tuple(None if text is None else numbers[text] for text in found)


def _number(text: str) -> float | None:
    if "_" in text:  # Python reads it as a number, pandas does not
        raise ValueError
    number = float(text)
    return None if math.isnan(number) else number


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _sorted(column: Column) -> Column:
    return tuple(sorted(column, key=lambda value: (value is None, 0 if value is None else value)))


def _same(one: Column, other: Column) -> bool:
    return len(one) == len(other) and all(map(_equal, one, other))


def _equal(one: float | str | None, other: float | str | None) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, abs_tol=NUMBER_TOLERANCE)
    return one == other
