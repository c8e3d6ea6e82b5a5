"""Syntax trees of SQL (sqlglot, SQLite dialect): the canonical text of a query, and its structural style."""

import logging
from contextlib import suppress
from functools import lru_cache, reduce

from sqlglot import errors, exp, parse
from sqlglot.optimizer.simplify import simplify

# It warns about every statement that it does not analyse, such as SHOW.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

DIALECT = "sqlite"

_AGGREGATES_WITHOUT_A_CLASS = ("TOTAL",)
# Longer queries are not parsed: simplify() expands nested conditions.
_MAX_CHARACTERS = 10_000


@lru_cache(maxsize=200_000)
def canonical_sql(sql: str) -> str | None:
    """A text that queries share if they differ only in notation; None if sqlglot cannot parse the query.

    It ignores differences in white space, comments, case of keywords and names, quotes around names, aliases of tables
    and results, INNER, ASC, a table qualifier on the columns of the only table, the order of operands of AND, OR, =, +,
    * (and <, >) and of IN's list, and what sqlglot's `simplify` rewrites (NOT a = b, BETWEEN). Quoted names keep their
    case, because SQLite reads "France" as a string if no column has that name. Any other difference (subqueries for
    joins, the order of joins and result columns) gives another text. The text is a key and cannot always be executed:
    the second of two tables with one name becomes name#2.
    """
    tree = _parsed(sql)
    if tree is None:
        return None
    tree = tree.copy()
    for name in list(tree.find_all(exp.Identifier)):
        name.set("this", name.this if name.args.get("quoted") else name.this.lower())
        name.set("quoted", False)
    _rename_ctes(tree)
    _rename_sources(tree)
    _drop_names_of_results(tree)
    _drop_defaults(tree)
    # A query that cannot be simplified is compared as written.
    with suppress(errors.SqlglotError, RecursionError, ValueError, ArithmeticError):
        tree = simplify(tree, dialect=DIALECT)
    _order_operands(tree)
    return _text(tree)


@lru_cache(maxsize=200_000)
def structure_of(sql: str | None) -> str | None:
    """The first of the paper's styles (Appendix B) that a query has; None if it has none or sqlglot cannot parse it.

    In order: CTE: WITH. AGG: an aggregate of a condition, such as SUM(CASE ...) or TOTAL(a > 1), or one with FILTER.
    EXISTS: the keyword, or a subquery in a comparison. IN: IN with a subquery. JOIN: several tables in one FROM.
    """
    tree = _parsed(sql) if sql else None
    if tree is None:
        return None
    if tree.find(exp.With):
        return "CTE"
    if tree.find(exp.Filter) or any(map(_aggregates_a_condition, tree.walk())):
        return "AGG"
    if tree.find(exp.Exists) or _compared_subqueries(tree):
        return "EXISTS"
    if any(found.args.get("query") for found in tree.find_all(exp.In)):
        return "IN"
    return "JOIN" if tree.find(exp.Join) else None


# The functions above are called for the same query in turn. A tree takes about 40 KB, so only a few are kept.
@lru_cache(maxsize=16)
def _parsed(sql: str) -> exp.Expression | None:
    if len(sql) > _MAX_CHARACTERS:
        return None
    try:
        # sqlglot parses a comment after the last semicolon as a statement.
        statements = [tree for tree in parse(sql, read=DIALECT) if not isinstance(tree, exp.Semicolon | None)]
    except (errors.SqlglotError, RecursionError):
        return None
    is_one_query = len(statements) == 1 and isinstance(statements[0], exp.Query)
    return statements[0] if is_one_query else None


def _rename_ctes(tree: exp.Expression) -> None:
    ctes = enumerate(tree.find_all(exp.CTE, bfs=False), start=1)
    names = {cte.alias.lower(): f"cte#{number}" for number, cte in ctes}
    for cte in tree.find_all(exp.CTE):
        cte.args["alias"].set("this", exp.to_identifier(names[cte.alias.lower()], quoted=False))
    for table in tree.find_all(exp.Table):
        if table.name.lower() in names:
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=False)))
            table.set("this", exp.to_identifier(names[table.name.lower()], quoted=False))


def _drop_defaults(tree: exp.Expression) -> None:
    for join in tree.find_all(exp.Join):
        if join.args.get("kind") == "INNER":
            join.set("kind", None)
    for ordered in tree.find_all(exp.Ordered):
        ordered.set("desc", ordered.args.get("desc") or None)


def _rename_sources(tree: exp.Expression) -> None:
    """Name tables and subqueries by their kind, with a number if there are several of one kind."""
    names: dict[int, dict[str, str]] = {}  # {id of a SELECT: {alias: canonical name}}
    used: dict[str, int] = {}
    for select in tree.find_all(exp.Select, bfs=False):
        own = names[id(select)] = {}
        for source in _sources(select):
            called = source.alias_or_name
            kind = source.name if isinstance(source, exp.Table) else "subquery"
            used[kind] = used.get(kind, 0) + 1
            own[called.lower()] = kind if used[kind] == 1 else f"{kind}#{used[kind]}"
            if isinstance(source, exp.Table):
                source.set("alias", None)
            elif source.args.get("alias"):
                source.args["alias"].set("this", exp.to_identifier(own[called.lower()], quoted=False))
    for column in list(tree.find_all(exp.Column)):
        if column.table:
            _rename_column(column, names)


def _rename_column(column: exp.Column, names: dict[int, dict[str, str]]) -> None:
    select = column.parent_select
    while select is not None:
        own = names.get(id(select), {})
        if column.table.lower() in own:
            only = len(own) == 1 and select is column.parent_select
            column.set("table", None if only else exp.to_identifier(own[column.table.lower()], quoted=False))
            return
        select = select.parent_select


def _sources(select: exp.Select) -> list[exp.Expression]:
    first = select.args.get("from_") or select.args.get("from")
    joined = [join.this for join in select.args.get("joins") or ()]
    return ([first.this] if first else []) + joined


def _drop_names_of_results(tree: exp.Expression) -> None:
    """Drop result aliases of the outermost query, unless another part of it uses them."""
    select = tree
    if not isinstance(select, exp.Select):
        return
    rest = [part for key, part in select.args.items() if key != "expressions" and isinstance(part, exp.Expression)]
    used = {column.name.lower() for part in rest for column in part.find_all(exp.Column) if not column.table}
    for result in list(select.expressions):
        if isinstance(result, exp.Alias) and result.alias.lower() not in used:
            result.replace(result.this)


def _order_operands(tree: exp.Expression) -> None:
    """Sort the operands of symmetric operators by their text, inner expressions first; turn > into <."""
    for node in reversed(list(tree.walk())):
        if isinstance(node, exp.LT | exp.LTE):
            node.set("this", _operand(node, node.this))
            node.set("expression", _operand(node, node.expression))
        elif isinstance(node, exp.GT | exp.GTE):
            mirror = exp.LT if isinstance(node, exp.GT) else exp.LTE
            node.replace(mirror(this=_operand(node, node.expression), expression=_operand(node, node.this)))
        elif isinstance(node, exp.EQ | exp.NEQ | exp.Add | exp.Mul):
            left, right = sorted((_operand(node, node.this), _operand(node, node.expression)), key=_text)
            node.set("this", left)
            node.set("expression", right)
        elif isinstance(node, exp.In):
            node.set("expressions", sorted(node.expressions, key=_text))
        elif isinstance(node, exp.And | exp.Or) and not isinstance(node.parent, type(node)):
            operands = sorted(node.flatten(unnest=False), key=_text)
            node.replace(reduce(lambda left, right: type(node)(this=left, expression=right), operands))  # noqa: B023


def _operand(node: exp.Expression, operand: exp.Expression) -> exp.Expression:
    """An operand of `node` in parentheses, where its text on the other side would be read as another expression."""
    binds_alike = exp.Div | exp.IntDiv | exp.Mod if isinstance(node, exp.Mul) else exp.Predicate
    return exp.paren(operand, copy=False) if isinstance(operand, binds_alike) else operand


def _text(node: exp.Expression) -> str:
    return node.sql(DIALECT, comments=False)


def _aggregates_a_condition(node: exp.Expression) -> bool:
    is_aggregate = isinstance(node, exp.AggFunc) or (
        isinstance(node, exp.Anonymous) and node.name.upper() in _AGGREGATES_WITHOUT_A_CLASS
    )
    return is_aggregate and node.find(exp.Case, exp.If, exp.Predicate, exp.Connector) not in (None, node)


def _compared_subqueries(tree: exp.Expression) -> list[exp.Expression]:
    comparisons = tree.find_all(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
    return [side for node in comparisons for side in (node.this, node.expression) if isinstance(side, exp.Subquery)]
