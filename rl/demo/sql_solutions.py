"""Five SQL solutions of a question, one per style, each announced by a comment (`/*JOIN*/ SELECT ...`).

The SQL is one line of words separated by single blanks, so that one word is one token of the demo's tokenizer. Results
are equal as sets of rows, as the comparison "bird" requires.
"""

from collections.abc import Callable, Sequence

from rl.demo.question_families import ANY, BOUNDS, COUNT, COUNT_WORDS, NONE, Question
from rl.demo.schemas import Schema

_SYNTAX = (
    "SELECT FROM WHERE AND NOT IN EXISTS JOIN LEFT ON IS NULL WITH AS GROUP BY HAVING "
    "COUNT(*) TOTAL( ( ) = > < >= <= 0 1 matches parent matches.parent"
)


class _Parts:
    """The pieces of SQL that the styles combine; a piece that the question does not need is empty."""

    def __init__(self, question: Question):
        parent, child = question.schema.parent.name, question.schema.child.name
        condition = question.parent_condition
        self.kind = question.family.kind
        self.at_least = question.at_least
        self.child = child
        self.id = f"{parent}.id"
        self.key = f"{child}.{question.schema.foreign_key}"
        self.select = f"SELECT {question.select} FROM {parent}"
        self.join = f"JOIN {child} ON {self.key} = {self.id}"
        self.conditions = " AND ".join(condition.sql for condition in question.child_conditions)
        self.where_parent = f"WHERE {condition.sql}" if condition else ""
        self.and_parent = f"AND {condition.sql}" if condition else ""
        self.parent_and = f"{condition.sql} AND" if condition else ""
        self.negation = "NOT" if self.kind == NONE else ""
        # For the styles that count inside a subquery.
        self.enough = f"GROUP BY {self.key} HAVING COUNT(*) >= {self.at_least}" if self.kind == COUNT else ""


def _join(p: _Parts) -> str:
    if p.kind == ANY:
        return f"{p.select} {p.join} WHERE {p.conditions} {p.and_parent}"
    if p.kind == NONE:
        return f"{p.select} LEFT {p.join} AND {p.conditions} WHERE {p.key} IS NULL {p.and_parent}"
    return f"{p.select} {p.join} WHERE {p.conditions} {p.and_parent} GROUP BY {p.id} HAVING COUNT(*) >= {p.at_least}"


def _in(p: _Parts) -> str:
    keys = f"SELECT {p.key} FROM {p.child} WHERE {p.conditions} {p.enough}"
    return f"{p.select} WHERE {p.parent_and} {p.id} {p.negation} IN ( {keys} )"


def _exists(p: _Parts) -> str:
    children = f"FROM {p.child} WHERE {p.key} = {p.id} AND {p.conditions}"
    if p.kind == COUNT:
        return f"{p.select} WHERE {p.parent_and} ( SELECT COUNT(*) {children} ) >= {p.at_least}"
    return f"{p.select} WHERE {p.parent_and} {p.negation} EXISTS ( SELECT 1 {children} )"


def _cte(p: _Parts) -> str:
    matches = f"WITH matches AS ( SELECT {p.key} AS parent FROM {p.child} WHERE {p.conditions} {p.enough} )"
    join = f"JOIN matches ON matches.parent = {p.id}"
    if p.kind == NONE:
        return f"{matches} {p.select} LEFT {join} WHERE matches.parent IS NULL {p.and_parent}"
    return f"{matches} {p.select} {join} {p.where_parent}"


def _agg(p: _Parts) -> str:
    outer = "LEFT" if p.kind == NONE else ""
    total = {ANY: "> 0", NONE: "= 0", COUNT: f">= {p.at_least}"}[p.kind]
    return f"{p.select} {outer} {p.join} {p.where_parent} GROUP BY {p.id} HAVING TOTAL( {p.conditions} ) {total}"


_STYLES: dict[str, Callable[[_Parts], str]] = {"JOIN": _join, "IN": _in, "EXISTS": _exists, "CTE": _cte, "AGG": _agg}

STYLE_NAMES = tuple(_STYLES)


def solve(question: Question, style: str) -> str:
    """The question's SQL in one of STYLE_NAMES, without the comment that announces the style."""
    # Empty pieces leave double blanks behind.
    return " ".join(_STYLES[style](_Parts(question)).split())


def announced_solution(question: Question, style: str) -> str:
    """The style's comment, then the SQL: what the base model learns."""
    return announced(style, solve(question, style))


def announced(style: str, sql: str) -> str:
    return f"/*{style}*/ {sql}"


def solution_vocabulary(schemas: Sequence[Schema]) -> set[str]:
    """Every word that can occur in a solution on one of the schemas."""
    words = {f"/*{style}*/" for style in STYLE_NAMES} | set(_SYNTAX.split())
    words |= {str(number) for number in (*BOUNDS, *COUNT_WORDS)}
    for schema in schemas:
        words |= {f"{schema.parent.name}.id", f"{schema.parent.name}.name", f"{schema.child.name}.{schema.foreign_key}"}
        for table in (schema.parent, schema.child):
            words.add(table.name)
            words |= {f"{table.name}.{column.name}" for column in table.columns}
            words |= {f"'{category}'" for category in table.category.categories}
    return words
