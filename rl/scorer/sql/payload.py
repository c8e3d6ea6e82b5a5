"""Results as JSON: the capped rows of a payload, and digests of all rows."""

import json
import math
from itertools import accumulate
from typing import Any

from rl.scorer.sql.compare import Comparison
from rl.scorer.sql.execute import Row, Value, marshalled


def rows_as_json(rows: list[Row], max_rows: int, max_bytes: int) -> str:
    """The first rows as a JSON list of lists: at most `max_rows`, and at most `max_bytes` when marshalled.

    Blobs and infinities become objects: {"blob": hex digits}, {"float": "inf"}.
    """
    shown = rows[:max_rows]
    if len(marshalled(shown)) > max_bytes:
        sizes = accumulate(len(marshalled(row)) for row in shown)
        shown = [row for row, size in zip(shown, sizes, strict=True) if size <= max_bytes]
    try:
        return _ENCODER.encode(shown)
    except ValueError:
        return _ENCODER.encode([[_finite(value) for value in row] for row in shown])


def result_digest(rows: list[Row], cmp_method: Comparison) -> str:
    """sha256 (hexadecimal) of a result, as a set of rows for bird and as a bag of rows for spider.

    Equal results have equal digests, on every machine and in every version. 1 equals 1.0, as in the comparison with
    gold. Unlike in the comparison of spider, the order of columns counts and the order of rows does not. Raises
    MemoryError.
    """
    import hashlib  # here, because it takes 5 ms and 3 MB of each worker

    texts = sorted(_SPACED_ENCODER.encode([_canonical(value) for value in row]) for row in rows)
    if cmp_method == "bird":
        texts = list(dict.fromkeys(texts))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _blob(value: bytes) -> dict[str, str]:
    return {"blob": value.hex()}


def _finite(value: Value) -> Any:
    return {"float": str(value)} if isinstance(value, float) and not math.isfinite(value) else value


def _canonical(value: Value) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else _finite(value)


# Refuses inf and nan, which are not JSON, so that Python walks only the rare results that have them.
_ENCODER = json.JSONEncoder(default=_blob, allow_nan=False, separators=(",", ":"))
_SPACED_ENCODER = json.JSONEncoder(default=_blob)
