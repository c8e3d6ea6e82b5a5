"""A result as JSON for the answer's payload: a capped list of rows that any JSON reader takes."""

import json
import math

from rl.scorer.sql.execute import Row, Value


def rows_as_json(rows: list[Row], max_rows: int, max_bytes: int) -> str:
    """The first rows as a JSON list of lists: at most `max_rows`, and no further row once `max_bytes` are passed.

    What JSON has no form for becomes an object: {"blob": hex digits}, {"float": "inf"}.
    """
    parts: list[str] = []
    size = 0
    for row in rows[:max_rows]:
        part = json.dumps([_as_json(value) for value in row])
        size += len(part)
        if size > max_bytes:
            break
        parts.append(part)
    return "[" + ",".join(parts) + "]"


def _as_json(value: Value) -> object:
    if isinstance(value, bytes):
        return {"blob": value.hex()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value
