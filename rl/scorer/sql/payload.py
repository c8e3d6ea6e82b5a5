"""A result as JSON for the answer's payload: a capped list of rows that any JSON reader takes."""

import json
import math

from rl.scorer.sql.execute import Row, Value, marshalled


def rows_as_json(rows: list[Row], max_rows: int, max_bytes: int) -> str:
    """The first rows as a JSON list of lists: at most `max_rows`, and at most `max_bytes` of them when marshalled.

    What JSON has no form for becomes an object: {"blob": hex digits}, {"float": "inf"}.
    """
    shown = rows[:max_rows]
    if len(marshalled(shown)) > max_bytes:
        shown = shown[: _rows_within(shown, max_bytes)]
    try:
        return _ENCODER.encode(shown)
    except ValueError:
        return _ENCODER.encode([[_finite(value) for value in row] for row in shown])


def _rows_within(rows: list[Row], max_bytes: int) -> int:
    size = 0
    for count, row in enumerate(rows):
        size += len(marshalled(row))
        if size > max_bytes:
            return count
    return len(rows)


def _blob(value: bytes) -> dict[str, str]:
    return {"blob": value.hex()}


def _finite(value: Value) -> object:
    return {"float": str(value)} if isinstance(value, float) and not math.isfinite(value) else value


# Refuses inf and nan, which are no JSON, so that only the rare result that holds them is walked in Python.
_ENCODER = json.JSONEncoder(default=_blob, allow_nan=False, separators=(",", ":"))
