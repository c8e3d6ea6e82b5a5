"""CREATE TABLE statements of a SQLite database, with some values of each column as comments.

The database is opened read-only, as the scorer opens it. Values come from the first ROWS_READ rows of a table, so that
reading takes the same time for tables of any size.
"""

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rl.scorer.sql.execute import PRIVATE_INDEX

ROWS_READ = 1000
EXAMPLE_VALUES = 2  # of a column: its first different ones
TEXT_LENGTH = 60
BLOB_LENGTH = 8

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# https://www.sqlite.org/lang_keywords.html
_KEYWORDS = frozenset(
    """abort action add after all alter always analyze and as asc attach autoincrement before begin between by cascade
    case cast check collate column commit conflict constraint create cross current current_date current_time
    current_timestamp database default deferrable deferred delete desc detach distinct do drop each else end escape
    except exclude exclusive exists explain fail filter first following for foreign from full generated glob group
    groups having if ignore immediate in index indexed initially inner insert instead intersect into is isnull join
    key last left like limit match materialized natural no not nothing notnull null nulls of offset on or order others
    outer over partition plan pragma preceding primary query raise range recursive references regexp reindex release
    rename replace restrict returning right rollback row rows savepoint select set table temp temporary then ties to
    transaction trigger unbounded union unique update using vacuum values view virtual when where window with
    without""".split()  # noqa: SIM905
)
# Shadow tables hold the data of virtual tables, such as full-text indexes.
_TABLE_NAMES = """
    SELECT name FROM sqlite_master
    WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
    AND name NOT IN (SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'shadow')
    ORDER BY rowid
"""
# These characters end a line for SQLite, a terminal or an editor, and a value must stay within its comment.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class SchemaError(Exception):
    """The schema of a database cannot be shown; the text says why."""


@dataclass(frozen=True)
class Layout:
    """How statements are written.

    quote: the quote around names that need one; not " for SQLite, which reads a misspelled name in it as a text.
    omnisql: whether to write as in OmniSQL's training data, with example values as Python lists and with named foreign
    keys.
    """

    quote: str = "`"
    omnisql: bool = False


DEFAULT_LAYOUT = Layout()


@dataclass(frozen=True)
class Column:
    """A column. `type` is the declared type and may be empty; `examples` are SQL literals."""

    name: str
    type: str
    examples: tuple[str, ...]


@dataclass(frozen=True)
class ForeignKey:
    columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    foreign_keys: tuple[ForeignKey, ...]

    def definition(self, examples: bool, layout: Layout) -> str:
        """The CREATE TABLE statement."""

        def name_list(names: tuple[str, ...]) -> str:
            return f"({', '.join(quote_name(name, layout.quote) for name in names)})"

        lines = [
            (f"{quote_name(column.name, layout.quote)} {column.type}".rstrip(), column.examples if examples else ())
            for column in self.columns
        ]
        if self.primary_key:
            lines.append((f"PRIMARY KEY {name_list(self.primary_key)}", ()))
        for key in self.foreign_keys:
            label = "_".join((self.name, *key.columns)).lower().replace(" ", "_")
            constraint = f"CONSTRAINT fk_{label} " if layout.omnisql else ""
            parent = f"{quote_name(key.parent, layout.quote)} {name_list(key.parent_columns)}"
            lines.append((f"{constraint}FOREIGN KEY {name_list(key.columns)} REFERENCES {parent}", ()))
        body = []
        for position, (text, values) in enumerate(lines):
            comma = "," if position < len(lines) - 1 else ""
            comment = f" -- {_example_list(values, layout)}" if values else ""
            body.append(f"    {text}{comma}{comment}\n")
        return f"CREATE TABLE {quote_name(self.name, layout.quote)} (\n{''.join(body)});"

    @property
    def example_characters(self) -> int:
        return sum(len(example) for column in self.columns for example in column.examples)


@dataclass(frozen=True)
class Schema:
    """The tables of a database, in the order of their creation."""

    tables: tuple[Table, ...]
    layout: Layout = DEFAULT_LAYOUT

    def definitions(self, tables_without_examples: int = 0) -> str:
        """The CREATE TABLE statements.

        Args:
            tables_without_examples: the number of tables that show no values, those with the longest values first.
        """
        bare = set(self._by_example_characters[:tables_without_examples])
        return "\n\n".join(
            table.definition(position not in bare, self.layout) for position, table in enumerate(self.tables)
        )

    @property
    def tables_with_examples(self) -> int:
        return len(self._by_example_characters)

    @cached_property
    def _by_example_characters(self) -> list[int]:
        """Positions of the tables that have examples, with most characters first."""
        with_examples = [position for position, table in enumerate(self.tables) if table.example_characters]
        return sorted(with_examples, key=lambda position: -self.tables[position].example_characters)


def read_schema(uri: str) -> Schema:
    """Read the tables of a database, without SQLite's internal ones.

    Args:
        uri: the address that opens the file read-only.

    Raises:
        SchemaError: the file is not a database, cannot be read, or has no table.
    """
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            if uri.endswith(PRIVATE_INDEX):
                database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.text_factory = lambda text: text.decode(errors="ignore")
            names = [name for (name,) in database.execute(_TABLE_NAMES)]
            tables = tuple(_read_table(database, name) for name in names)
    except sqlite3.Error as error:
        raise SchemaError(f"the database cannot be read: {error}") from error
    if not tables:
        raise SchemaError("the database has no table")
    return Schema(_with_known_parents(tables))


def add_declared_keys(schema: Schema, declared: Mapping[str, Any]) -> Schema:
    """Add the keys that an entry of Spider's tables.json has and the database does not declare.

    Args:
        declared: column_names_original, table_names_original, primary_keys and foreign_keys.
    """
    table_names = declared["table_names_original"]
    columns = [
        (table_names[table].lower() if table >= 0 else None, name) for table, name in declared["column_names_original"]
    ]
    keys = [key if isinstance(key, list) else [key] for key in declared["primary_keys"]]
    primary: list[list] = [[columns[number] for number in key] for key in keys if key]
    foreign = [(columns[child], columns[parent]) for child, parent in declared["foreign_keys"]]
    tables = {table.name.lower(): table for table in schema.tables}
    for key in primary:
        table = tables.get(key[0][0])
        names = _known_columns(table, [name for _, name in key])
        if table and names and not table.primary_key:
            tables[key[0][0]] = replace(table, primary_key=names)
    for (child_table, child), (parent_table, parent) in foreign:
        table, referenced = tables.get(child_table), tables.get(parent_table)
        names, parent_columns = _known_columns(table, [child]), _known_columns(referenced, [parent])
        if table and referenced and names and parent_columns:
            foreign_key = ForeignKey(names, referenced.name, parent_columns)
            if foreign_key not in table.foreign_keys:
                tables[child_table] = replace(table, foreign_keys=(*table.foreign_keys, foreign_key))
    return replace(schema, tables=tuple(tables.values()))


def quote_name(name: str, quote: str) -> str:
    """Quote a table's or column's name for SQL, if it needs quotes."""
    if _PLAIN_NAME.fullmatch(name) and name.lower() not in _KEYWORDS:
        return name
    return quote + name.replace(quote, 2 * quote) + quote


def _read_table(database: sqlite3.Connection, name: str) -> Table:
    # cid, name, type, notnull, default, position in the primary key, hidden. hidden is 1 for virtual tables' arguments,
    # 2 and 3 for generated columns.
    rows = [row for row in database.execute(f"PRAGMA table_xinfo({_quoted(name)})") if row[6] != 1]
    examples = _read_examples(database, name, [row[1] for row in rows])
    columns = tuple(Column(row[1], " ".join(row[2].split()), examples[row[1]]) for row in rows)
    primary_key = tuple(column for _, column in sorted((row[5], row[1]) for row in rows if row[5]))
    return Table(name, columns, primary_key, _read_foreign_keys(database, name))


def _read_foreign_keys(database: sqlite3.Connection, name: str) -> tuple[ForeignKey, ...]:
    keys: dict[int, list[tuple]] = {}  # for each key, its (position, parent, child column, parent column)
    for number, *part in database.execute(f"PRAGMA foreign_key_list({_quoted(name)})"):
        keys.setdefault(number, []).append(tuple(part[:4]))
    # SQLite numbers the keys from the last to the first. A key that names no columns of its parent means the parent's
    # primary key; _with_known_parents fills it in.
    return tuple(
        ForeignKey(
            tuple(part[2] for part in parts), parts[0][1], tuple(part[3] for part in parts if part[3] is not None)
        )
        for parts in (sorted(keys[number]) for number in sorted(keys, reverse=True))
    )


def _with_known_parents(tables: tuple[Table, ...]) -> tuple[Table, ...]:
    """Keep only foreign keys whose parent exists, and give them the parent's columns and spelling."""
    by_name = {table.name.lower(): table for table in tables}

    def resolve(key: ForeignKey) -> ForeignKey | None:
        parent = by_name.get(key.parent.lower())
        if parent is None:
            return None
        columns = _known_columns(parent, key.parent_columns or parent.primary_key)
        return ForeignKey(key.columns, parent.name, columns) if len(columns) == len(key.columns) else None

    return tuple(
        replace(table, foreign_keys=tuple(key for key in map(resolve, table.foreign_keys) if key is not None))
        for table in tables
    )


def _read_examples(database: sqlite3.Connection, table: str, columns: list[str]) -> dict[str, tuple[str, ...]]:
    """At most EXAMPLE_VALUES different literals of each column."""
    if not columns:
        return {}
    # SQL shortens the values, because a value can be larger than memory.
    selected = ", ".join(
        f"CASE typeof({_quoted(column)}) WHEN 'text' THEN substr({_quoted(column)}, 1, {TEXT_LENGTH + 1}) "
        f"WHEN 'blob' THEN substr({_quoted(column)}, 1, {BLOB_LENGTH + 1}) ELSE {_quoted(column)} END"
        for column in columns
    )
    literals: list[dict[str, None]] = [{} for _ in columns]  # ordered sets
    for row in database.execute(f"SELECT {selected} FROM {_quoted(table)} LIMIT {ROWS_READ}"):
        for found, value in zip(literals, row, strict=True):
            if value is not None and value != "" and len(found) < EXAMPLE_VALUES:
                found[_literal(value)] = None
    return {column: tuple(found) for column, found in zip(columns, literals, strict=True)}


def _literal(value: int | float | str | bytes) -> str:
    """A value as a SQL literal on one line; long values are shortened."""
    if isinstance(value, bytes):
        return f"x'{value[:BLOB_LENGTH].hex()}{'...' * (len(value) > BLOB_LENGTH)}'"
    if isinstance(value, str):
        cut = value[:TEXT_LENGTH] + "..." * (len(value) > TEXT_LENGTH)
        escaped = _CONTROL.sub(lambda match: json.dumps(match[0])[1:-1], cut)
        return "'" + escaped.replace("'", "''") + "'"
    return {"inf": "9e999", "-inf": "-9e999"}.get(repr(value), repr(value))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _example_list(literals: tuple[str, ...], layout: Layout) -> str:
    if not layout.omnisql:
        return f"e.g. {', '.join(literals)}"
    values = (repr(text[1:-1].replace("''", "'")) if text.startswith("'") else text for text in literals)
    return f"example: [{', '.join(values)}]"


def _known_columns(table: Table | None, names: Sequence[str]) -> tuple[str, ...]:
    """The names in the table's spelling; () if the table or one of the columns does not exist."""
    spelled = {column.name.lower(): column.name for column in table.columns} if table is not None else {}
    found = tuple(spelled[name.lower()] for name in names if name.lower() in spelled)
    return found if len(found) == len(names) else ()
