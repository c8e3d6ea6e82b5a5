"""Variants of a query that must return the same result, unless the query leaves its result open."""

from collections.abc import Iterator
from re import Match

from rl.scorer.sql.lexer import tokens


def with_tie_breaks(sql: str, columns: int, descending: bool, engine: str = "sqlite") -> str | None:
    """The query with its columns as last sort keys of every LIMIT and of the whole result; None without either.

    In a subquery only the first column breaks ties, because its number of columns is not known here.

    Args:
        columns: the result's number of columns.
    """
    inserted: list[tuple[int, str]] = []
    ordered = [False]  # for the statement and each open parenthesis: whether it has an ORDER BY without a LIMIT so far
    previous, end = "", 0

    def sort_keys() -> str:
        direction = " DESC" if descending else ""
        keys = ", ".join(f"{i}{direction}" for i in range(1, (columns if len(ordered) == 1 else 1) + 1))
        return f", {keys} " if ordered[-1] else f" ORDER BY {keys} "

    for match, word in _words(sql, engine):
        if word == ";":
            continue
        end = match.end()
        if word == "(":
            ordered.append(False)
        elif word == ")" and len(ordered) > 1:
            ordered.pop()
        elif (previous, word) == ("ORDER", "BY"):
            ordered[-1] = True
        elif word == "LIMIT":
            inserted.append((match.start(), sort_keys()))
            ordered[-1] = False
        previous = word
    if ordered[0]:
        inserted.append((end, sort_keys()))
    for position, keys in reversed(inserted):
        sql = sql[:position] + keys + sql[position:]
    return sql if inserted else None


def with_distinct_toggled(sql: str, engine: str) -> str | None:
    """The query with DISTINCT after its first SELECT, or without it if it has one; None without a SELECT."""
    depth = 0
    words = _words(sql, engine)
    for match, word in words:
        depth += (word == "(") - (word == ")")
        if word == "SELECT" and depth == 0:
            following, name = next(words, (match, ""))
            if name == "DISTINCT":
                return sql[: following.start()] + sql[following.end() :]
            return f"{sql[: match.end()]} DISTINCT{sql[match.end() :]}"
    return None


def _words(sql: str, engine: str) -> Iterator[tuple[Match, str]]:
    return ((match, match[0].upper()) for match in tokens(sql, engine))
