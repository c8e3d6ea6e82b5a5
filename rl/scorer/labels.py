"""The question in a label of another trainer's data set, and the response to it."""

import json
import re
from typing import Any

# Special tokens that end a turn: OpenRLHF and slime decode responses with them. Qwen, Llama 3,
# DeepSeek, Llama 2, Gemma.
_ENDS = re.compile(r"(?:(?:<\|\w+\|>|<｜[^<>｜]+｜>|</s>|<eos>|<end_of_turn>)\s*)+$")
_LONGEST_ENDS = 100
# Texts that do not answer a mathematical problem, and what they are.
_SQL = r".*```sql.*|\s*(?:select\s|with\s+\w+\s+as\s*\().*"
_NO_ANSWERS = (
    (re.compile(r"\s*\[?\s*\{\s*(?:[\"'].*)?", re.DOTALL), "an object, but not complete JSON"),
    (re.compile(_SQL, re.DOTALL | re.IGNORECASE), "SQL without its database"),
    (re.compile(r"\s*(?:null|none|nan|<na>)?\s*", re.IGNORECASE), "missing"),
)


def without_ends(response: str) -> str:
    """A decoded response without the special tokens at its end."""
    return response[:-_LONGEST_ENDS] + _ENDS.sub("", response[-_LONGEST_ENDS:])


def question_of_label(label: Any) -> dict[str, Any]:
    """The question of POST /v1/score that a label holds.

    Args:
        label: a question as an object or as the JSON text of one, such as {"db_id": ..., "gold_sql": ...,
            "cmp_method": ...}; or the right answer of a mathematical problem, as a text or a whole number.

    Raises:
        ValueError: the label is neither; the text completes "labels.3: ".
    """
    if isinstance(label, dict):
        return label
    if isinstance(label, float) and label.is_integer():  # pandas makes 13.0 of 13 beside a missing value
        label = int(label)
    if isinstance(label, int) and not isinstance(label, bool):
        label = str(label)
    if not isinstance(label, str):
        raise ValueError(_refused(label, f"of type {type(label).__name__}"))
    if (question := _json_object(label)) is not None:
        return question
    for pattern, what in _NO_ANSWERS:
        if pattern.fullmatch(label):
            raise ValueError(_refused(label, what))
    return {"ground_truth": label}


def _refused(label: Any, what: str) -> str:
    return (
        f"names no database and no answer (it is {what}: {str(label)[:80]!r}): give the JSON of db_id, gold_sql and "
        "cmp_method, or the right answer as text"
    )


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
