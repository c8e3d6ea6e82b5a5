"""Converts values of DuckDB and PostgreSQL to SQLite's: numbers, texts, blobs and NULL.

Results of all engines then compare alike: true is 1, the decimal 1.50 is 1.5, dates and all other types are texts.
"""

import json
import re
from datetime import datetime, time
from decimal import Decimal
from typing import Any

from rl.scorer.sql.execute import Value

# Digits of the largest float; larger numbers become texts.
_MOST_DIGITS = 308
# Python writes all six digits of a second's fraction, DuckDB and PostgreSQL only the needed ones.
_ZEROS = re.compile(r"(?<=\.)(\d*[1-9])0+(?=[+-]|$)")
# A text, so that NaN equals NaN as in both engines.
_NAN = "NaN"


def from_float(value: float) -> Value:
    """The number, or NaN as a text."""
    return value if value == value else _NAN


def from_decimal(value: Decimal) -> Value:
    """A whole number, else the nearest float, so that an average is equal as decimal and as float."""
    if not value.is_finite():
        return from_float(float(value))
    if value.adjusted() > _MOST_DIGITS:
        text = format(value, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    return int(value) if value == value.to_integral_value() else float(value)


def from_python(value: Any) -> Value:
    """The value of a Python object from DuckDB."""
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
    return _ZEROS.sub(r"\1", str(value)) if kind in (datetime, time) else str(value)


def _within(value: Any) -> Any:
    """Lists, structs and maps with converted values; a map's keys become texts."""
    if isinstance(value, dict):
        return {str(from_python(key)): _within(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_within(item) for item in value]
    plain = from_python(value)
    return plain.hex() if isinstance(plain, bytes) else plain
