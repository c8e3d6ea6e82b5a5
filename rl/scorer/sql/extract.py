"""Reading the SQL from a model's response."""

import re

from rl.scorer.response import without_thinking
from rl.scorer.sql.lexer import repair

# The prompt shows this block as the form of an answer; a response that repeats it has not answered with it.
TEMPLATE = "```sql\n-- Your SQL query\n```"
_FENCE = "```"
_OPENING = re.compile(r"```sql(?:ite)?(?!\w)", re.IGNORECASE)


def read_sql(response: str) -> str | None:
    """The SQL in the last ```sql (or ```sqlite, any case) block of `response` that is closed, repaired; None without.

    A block may stand on one line. An empty block is no answer. A block that a second opening fence interrupts ends
    there, so the last opening decides. Blocks among thoughts (before </think>) are none.
    """
    response = without_thinking(response).replace(TEMPLATE, "")
    for opening in reversed(list(_OPENING.finditer(response))):
        end = response.find(_FENCE, opening.end())
        if end >= 0:
            return repair(response[opening.end() : end].strip()) or None
    return None
