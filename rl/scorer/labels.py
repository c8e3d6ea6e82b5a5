"""The question in a label of another trainer's data set, and the response to it."""

import json
import re
from typing import Any

# Special tokens that end a turn: OpenRLHF and slime decode responses with them. Qwen, Llama 3,
# DeepSeek, Llama 2, Gemma.
_ENDS = re.compile(r"(?:(?:<\|\w+\|>|<｜[^<>｜]+｜>|</s>|<eos>|<end_of_turn>)\s*)+$")
_LONGEST_ENDS = 100


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
    if isinstance(label, str):
        question = _json_object(label)
        if question is not None:
            return question
    elif isinstance(label, dict):
        return label
    elif isinstance(label, int) and not isinstance(label, bool):
        label = str(label)
    if not isinstance(label, str) or not label.strip():
        raise ValueError(
            f"names no database and no answer (it is {str(label)[:80]!r}): give the JSON of db_id, gold_sql and "
            "cmp_method, or the right answer as text"
        )
    return {"ground_truth": label}


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
