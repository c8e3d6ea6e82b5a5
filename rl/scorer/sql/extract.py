"""Reading the SQL from a model's response."""

import re

from rl.scorer.response import without_thinking
from rl.scorer.sql.lexer import repair

# The prompt shows this block as the form of an answer; a response that repeats it has not answered with it.
TEMPLATE = "```sql\n-- Your SQL query\n```"
_FENCE = "```"
_NAMES = {"sqlite": "sql(?:ite)?", "duckdb": "sql|duckdb", "postgresql": "sql|postgres(?:ql)?|pgsql"}
_OPENINGS = {engine: re.compile(rf"```(?:{name})(?!\w)", re.IGNORECASE) for engine, name in _NAMES.items()}


def read_sql(response: str, engine: str = "sqlite") -> str | None:
    """The SQL in the last ```sql (or ```sqlite, any case) block of `response` that is closed, repaired; None without.

    With another engine, ```duckdb, or ```postgresql, ```postgres and ```pgsql, instead of ```sqlite.

    A block may stand on one line. An empty block is no answer. A block that a second opening fence interrupts ends
    there, so the last opening decides. Blocks among thoughts (before </think>) are none.
    """
    response = without_thinking(response).replace(TEMPLATE, "")
    for opening in reversed(list(_OPENINGS[engine].finditer(response))):
        end = response.find(_FENCE, opening.end())
        if end >= 0:
            return repair(response[opening.end() : end].strip(), engine) or None
    return None
