"""Digests of query results: equal results have equal digests, on every machine and in every version."""

import json
import math
from typing import Any

from rl.scorer.sql.compare import Comparison
from rl.scorer.sql.execute import Row, Value


def result_digest(rows: list[Row], cmp_method: Comparison) -> str:
    """sha256 (hexadecimal) of a result as a set of rows for bird and as a bag of rows for spider.

    1 equals 1.0, as in the comparison with gold. Unlike that of spider, columns stay in their order and rows have none.
    Raises MemoryError.
    """
    import hashlib  # only where a digest is wanted: it takes 5 ms and 3 MB of each worker

    texts = sorted(_ENCODER.encode([_json_value(value) for value in row]) for row in rows)
    if cmp_method == "bird":
        texts = list(dict.fromkeys(texts))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _json_value(value: Value) -> Any:
    if not isinstance(value, float):
        return value
    if value.is_integer():
        return int(value)
    return value if math.isfinite(value) else {"float": str(value)}


_ENCODER = json.JSONEncoder(default=lambda blob: {"blob": blob.hex()})
