"""SQLite's quoting and comments, as far as the scorer must know them. Every function here is linear in the text.

sqlparse is not used: it reads a backslash as an escape inside a string, which SQLite does not ('C:\\' is complete).
"""

import re
from collections.abc import Iterator

# A quoted text or comment that is never closed runs to the end, so no pattern can backtrack.
_OPAQUE = r"""'[^']*(?:'|\Z)|"[^"]*(?:"|\Z)|`[^`]*(?:`|\Z)|\[[^\]]*(?:\]|\Z)|--[^\n]*|/\*.*?(?:\*/|\Z)"""
_REPAIR = re.compile(
    rf"(?P<opaque>{_OPAQUE})|(?P<compare>[<>!])\s+=|(?P<year>\bYEAR\s*\(\s*CURDATE\s*\(\s*\)\s*\))",
    re.DOTALL | re.IGNORECASE,
)
_TOKEN = re.compile(rf"(?P<opaque>{_OPAQUE})|\w+|[^\w\s]", re.DOTALL)
_CLOCK = frozenset({"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "'NOW'", '"NOW"'})

# What YEAR(CURDATE()) reads, as in the Spider test-suite evaluation: MySQL's function, frozen at the data's year.
CURRENT_YEAR = "2020"


def repair(sql: str) -> str:
    """`> =`, `< =`, `! =` joined and YEAR(CURDATE()) replaced, outside string literals, quoted names and comments."""

    def replace(match: re.Match) -> str:
        if match["opaque"] is not None:
            return match["opaque"]
        return CURRENT_YEAR if match["compare"] is None else match["compare"] + "="

    return _REPAIR.sub(replace, sql)


def tokens(sql: str) -> Iterator[re.Match]:
    """Words, quoted names and texts, and single signs, without comments."""
    return (match for match in _TOKEN.finditer(sql) if not match[0].startswith(("--", "/*")))


def first_word(sql: str) -> str:
    """The first token of the statement, in upper case; empty without one."""
    # SQLite passes over a byte order mark and Python's sqlite3 over semicolons.
    return next((match[0].upper() for match in tokens(sql) if match[0] not in (";", "\ufeff")), "")


def reads_clock(sql: str) -> bool:
    """Whether the result depends on the date: CURRENT_TIMESTAMP and its like, or 'now'."""
    return any(match[0].upper() in _CLOCK for match in _TOKEN.finditer(sql))


def has_top_level_order_by(sql: str) -> bool:
    """Whether the statement orders its result: an ORDER BY outside every parenthesis (subquery, CTE, window)."""
    depth = 0
    previous = ""
    for match in tokens(sql):
        token = match[0].upper()
        if depth == 0 and (previous, token) == ("ORDER", "BY"):
            return True
        depth += (token == "(") - (token == ")")
        previous = token
    return False
