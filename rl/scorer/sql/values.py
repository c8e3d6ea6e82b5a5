"""Values of DuckDB and PostgreSQL as SQLite would have them: numbers, texts, blobs and NULL.

So that results compare as SQLite's do: true is 1, the decimal 1.50 is 1.5, dates and all other types are texts.
"""

import json
from decimal import Decimal
from typing import Any

from rl.scorer.sql.execute import Value

# Of a whole number; a larger one is beyond what floats reach, and is a text.
_MOST_DIGITS = 308
# NaN equals NaN, as in both engines; as a float it would equal nothing.
_NAN = "NaN"


def from_float(value: float) -> Value:
    """The number."""
    return value if value == value else _NAN


def from_decimal(value: Decimal) -> Value:
    """A whole number, or else the nearest float: an average is the same as decimal and as float."""
    if not value.is_finite():
        return from_float(float(value))
    if value.adjusted() > _MOST_DIGITS:
        text = format(value, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    return int(value) if value == value.to_integral_value() else float(value)


def from_python(value: Any) -> Value:
    """What DuckDB's Python objects are."""
    kind = type(value)
    if value is None or kind is int or kind is str or kind is bytes:
        return value
    if kind is float:
        return from_float(value)
    if kind is bool:
        return int(value)
    if kind is Decimal:
        return from_decimal(value)
    if kind in (list, tuple, dict):
        return json.dumps(_within(value), ensure_ascii=False)
    return str(value)


def _within(value: Any) -> Any:
    """Lists, structs and maps with the same values in them; a map's keys are texts."""
    if isinstance(value, dict):
        return {str(from_python(key)): _within(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_within(item) for item in value]
    plain = from_python(value)
    return plain.hex() if isinstance(plain, bytes) else plain
