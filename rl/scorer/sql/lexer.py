"""Quoting and comments of the dialects, as far as the scorer must know them. Every function is linear in the text.

sqlparse does not fit: inside a string it reads a backslash as an escape, which SQLite does not ('C:\\' is complete).
"""

import re
from collections.abc import Iterator
from typing import NamedTuple


class _Dialect(NamedTuple):
    """What differs between the dialects.

    repair, token: patterns; their group `opaque` is a quoted text or comment. clock: tokens that read the date.
    moments: words with which a text can mean a date of today. times: functions that can read the date.
    """

    repair: re.Pattern
    token: re.Pattern
    clock: frozenset[str]
    moments: frozenset[str]
    times: frozenset[str]

    @classmethod
    def of(cls, opaque: str, *words: set[str]) -> "_Dialect":
        repair = rf"(?P<opaque>{opaque})|(?P<compare>[<>!])\s+=|(?P<year>\bYEAR\s*\(\s*CURDATE\s*\(\s*\)\s*\))"
        token = rf"(?P<opaque>{opaque})|\w[\w$]*|[^\w\s]"
        patterns = re.compile(repair, re.DOTALL | re.IGNORECASE), re.compile(token, re.DOTALL)
        return cls(*patterns, *(frozenset(each) for each in words))


# A quoted text or comment that is never closed runs to the end, so no pattern can backtrack.
_QUOTED = r"""'[^']*(?:'|\Z)|"[^"]*(?:"|\Z)|/\*.*?(?:\*/|\Z)"""
_CLOCK = {"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP"}
_POSTGRESQL_CLOCK = _CLOCK | {"LOCALTIME", "LOCALTIMESTAMP"}
_POSTGRESQL_TIMES = {
    *("AGE", "CLOCK_TIMESTAMP", "CURRENT_LOCALTIME", "CURRENT_LOCALTIMESTAMP", "GET_CURRENT_TIME"),
    *("GET_CURRENT_TIMESTAMP", "NOW", "STATEMENT_TIMESTAMP", "AGO", "PG_CONF_LOAD_TIME", "PG_POSTMASTER_START_TIME"),
    *("TIMEOFDAY", "TODAY", "TRANSACTION_TIMESTAMP"),
}
# SQLite's functions of time mean now if they get no time, or one that says now: a text, a column or an expression.
_SQLITE_TIMES = {"DATE", "TIME", "DATETIME", "JULIANDAY", "UNIXEPOCH", "STRFTIME", "TIMEDIFF"}
# As SQLite's authorizer names what can read the date.
SQLITE_CLOCK = frozenset(name.lower() for name in _CLOCK | _SQLITE_TIMES)
_SQLITE = _Dialect.of(
    rf"{_QUOTED}|--[^\n]*|`[^`]*(?:`|\Z)|\[[^\]]*(?:\]|\Z)",
    _CLOCK,
    set(),
    _SQLITE_TIMES,
)
# With $tag$text$tag$. `ambiguity` refuses further ways of quoting.
_POSTGRESQL = _Dialect.of(
    rf"{_QUOTED}|--[^\n\r]*|(?<![\w$])(?P<tag>\$(?:[^\W\d]\w*)?\$).*?(?:(?P=tag)|\Z)",
    _POSTGRESQL_CLOCK,
    {"NOW", "TODAY", "TOMORROW", "YESTERDAY"},
    _POSTGRESQL_TIMES,
)
_DIALECTS = {"sqlite": _SQLITE, "postgresql": _POSTGRESQL}
# Strings and names with escapes.
_ESCAPES = re.compile(r"\bE'", re.IGNORECASE)
_ESCAPED_NAME = re.compile(r'\bU&"', re.IGNORECASE)

# The value of YEAR(CURDATE()), as in the Spider test-suite evaluation: MySQL's function, frozen at the data's year.
CURRENT_YEAR = "2020"


def repair(sql: str, engine: str = "sqlite") -> str:
    """`> =`, `< =`, `! =` joined and YEAR(CURDATE()) replaced, outside string literals, quoted names and comments."""

    def replace(match: re.Match) -> str:
        if match["opaque"] is not None:
            return match["opaque"]
        return CURRENT_YEAR if match["compare"] is None else match["compare"] + "="

    return _DIALECTS[engine].repair.sub(replace, sql)


def tokens(sql: str, engine: str = "sqlite") -> Iterator[re.Match]:
    """Words, quoted names and texts, and single signs, without comments."""
    return (match for match in _DIALECTS[engine].token.finditer(sql) if not match[0].startswith(("--", "/*")))


def first_word(sql: str) -> str:
    """The first token of the statement, in upper case; empty without one."""
    # SQLite ignores a byte order mark, and Python's sqlite3 ignores semicolons.
    return next((match[0].upper() for match in tokens(sql) if match[0] not in (";", "\ufeff")), "")


def reads_clock(sql: str, engine: str = "sqlite") -> bool:
    """Whether the result may depend on the date: CURRENT_TIMESTAMP and similar words, in SQLite also date(...)."""
    dialect, previous = _DIALECTS[engine], ""
    for match in tokens(sql, engine):
        token = match[0].upper()
        if token.strip('"') in dialect.clock or (token == "(" and previous.strip('"`[]') in dialect.times):
            return True
        if match["opaque"] is not None and dialect.moments and _may_say_now(token, previous, dialect.moments):
            return True
        previous = token
    return False


def _may_say_now(text: str, previous: str, moments: frozenset[str]) -> bool:
    """Whether a quoted text can mean a date of today: one with escapes, E'\\x6eow' or U&'n\\006fw', can mean any."""
    return previous in ("E", "&") or not moments.isdisjoint(re.findall(r"\w+", text))


def ambiguity(sql: str) -> str | None:
    """What in `sql` could make `names` find other names than PostgreSQL does; None if nothing could."""
    # A string with escapes may continue on the next line.
    if "\\'" in sql and _ESCAPES.search(sql):
        return "\\' in a string; write it ''"
    if _ESCAPED_NAME.search(sql):
        return 'a name written U&"..."'
    found = (match[0] for match in _POSTGRESQL.token.finditer(sql))
    return "a comment in a comment" if any(token.startswith("/*") and "/*" in token[2:] for token in found) else None


def names(sql: str) -> Iterator[tuple[str, bool]]:
    """PostgreSQL's names and keywords in lower case, and whether an opening parenthesis follows."""
    name = ""
    for match in tokens(sql + ";", "postgresql"):
        token = match[0]
        if name:
            yield name, token == "("
        is_name = token.startswith('"') or (match["opaque"] is None and re.match(r"\w", token))
        name = token.strip('"').lower() if is_name else ""


def has_top_level_order_by(sql: str, engine: str = "sqlite") -> bool:
    """Whether the statement orders its result: an ORDER BY outside every parenthesis (subquery, CTE, window)."""
    depth = 0
    previous = ""
    for match in tokens(sql, engine):
        token = match[0].upper()
        if depth == 0 and (previous, token) == ("ORDER", "BY"):
            return True
        depth += (token == "(") - (token == ")")
        previous = token
    return False
