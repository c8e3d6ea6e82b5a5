"""The four database schemas of the demo, and their rows.

All have one shape: a parent table (`id`, `name`, one category, two numbers) and a child table (`id`, a foreign key to
the parent, one category, two numbers). Each table and column has synonyms for questions, the usual one first; some
words mean different columns in different schemas.
"""

import random
import sqlite3
from dataclasses import dataclass

PARENT_ROWS = 80
CHILD_ROWS = 320
NUMBER_RANGE = (1, 99)


@dataclass(frozen=True)
class Column:
    """A column of text when it has categories, else of whole numbers in NUMBER_RANGE."""

    name: str
    words: tuple[str, ...]
    categories: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table beside its key columns: one category and two numbers."""

    name: str
    words: tuple[str, ...]
    category: Column
    numbers: tuple[Column, Column]

    @property
    def columns(self) -> tuple[Column, ...]:
        return (self.category, *self.numbers)


@dataclass(frozen=True)
class Schema:
    """A database: parents have any number of children, through `child.foreign_key`."""

    name: str
    parent: Table
    child: Table
    foreign_key: str

    @property
    def db_id(self) -> str:
        """Where the SQLite file lies below the folder of databases."""
        return f"{self.name}/{self.name}.sqlite"


SHOP = Schema(
    name="shop",
    parent=Table(
        name="customers",
        words=("customers", "clients", "shoppers"),
        category=Column("city", ("city", "town"), ("porto", "turin", "bergen", "cusco", "luxor")),
        numbers=(Column("age", ("age", "years")), Column("points", ("points", "credit", "bonus"))),
    ),
    child=Table(
        name="orders",
        words=("order", "purchase"),
        category=Column("status", ("status", "state"), ("paid", "pending", "shipped", "returned")),
        numbers=(Column("total", ("total", "amount", "price")), Column("items", ("items", "pieces", "units"))),
    ),
    foreign_key="customer_id",
)

SCHOOL = Schema(
    name="school",
    parent=Table(
        name="students",
        words=("students", "pupils", "learners"),
        category=Column("major", ("major", "subject"), ("biology", "geology", "english", "sports", "dance")),
        numbers=(Column("height", ("height", "size")), Column("workload", ("workload", "load", "units"))),
    ),
    child=Table(
        name="exams",
        words=("exam", "test"),
        category=Column("course", ("course", "class"), ("geometry", "rhetoric", "ballet", "genetics")),
        numbers=(Column("score", ("score", "mark", "rating")), Column("hours", ("hours", "time", "effort"))),
    ),
    foreign_key="student_id",
)

FLIGHTS = Schema(
    name="flights",
    parent=Table(
        name="pilots",
        words=("pilots", "captains", "flyers"),
        category=Column("base", ("base", "home"), ("madrid", "osaka", "mumbai", "bogota", "tunis")),
        numbers=(Column("seniority", ("seniority", "years")), Column("salary", ("salary", "pay", "bonus"))),
    ),
    child=Table(
        name="flights",
        words=("flight", "trip"),
        category=Column("airline", ("airline", "carrier"), ("albatross", "buzzard", "condor", "dove")),
        numbers=(Column("delay", ("delay", "lateness", "time")), Column("distance", ("distance", "reach", "length"))),
    ),
    foreign_key="pilot_id",
)

CLINIC = Schema(
    name="clinic",
    parent=Table(
        name="doctors",
        words=("doctors", "physicians", "medics"),
        category=Column("ward", ("ward", "department"), ("heart", "brain", "bones", "skin", "lungs")),
        numbers=(Column("shifts", ("shifts", "load")), Column("grade", ("grade", "rank", "rating"))),
    ),
    child=Table(
        name="visits",
        words=("visit", "appointment"),
        category=Column("reason", ("reason", "cause"), ("vaccine", "cough", "fracture", "allergy")),
        numbers=(Column("cost", ("cost", "fee", "price")), Column("minutes", ("minutes", "duration", "length"))),
    ),
    foreign_key="doctor_id",
)

IN_DOMAIN = (SHOP, SCHOOL)
OUT_OF_DOMAIN = (FLIGHTS, CLINIC)
SCHEMAS = IN_DOMAIN + OUT_OF_DOMAIN


def table_definitions(schema: Schema, examples: dict[str, tuple] | None = None) -> list[str]:
    """The two CREATE TABLE statements, the parent's first.

    Args:
        examples: values to show as a comment behind each column, keyed by "table.column"; none without it.
    """
    parent, child = schema.parent, schema.child
    parent_keys = [("id", "INTEGER PRIMARY KEY"), ("name", "TEXT")]
    child_keys = [("id", "INTEGER PRIMARY KEY"), (schema.foreign_key, f"INTEGER REFERENCES {parent.name} (id)")]
    return [_table_definition(parent, parent_keys, examples), _table_definition(child, child_keys, examples)]


def _table_definition(table: Table, keys: list[tuple[str, str]], examples: dict[str, tuple] | None) -> str:
    columns = keys + [(column.name, "TEXT" if column.categories else "INTEGER") for column in table.columns]
    lines = []
    for position, (name, kind) in enumerate(columns):
        line = f"    {name} {kind}" + ("," if position < len(columns) - 1 else "")
        if examples is not None:
            line += "  -- such as " + ", ".join(repr(value) for value in examples[f"{table.name}.{name}"])
        lines.append(line)
    return f"CREATE TABLE {table.name} (\n" + "\n".join(lines) + "\n);"


def fill_database(connection: sqlite3.Connection, schema: Schema, seed: int) -> None:
    """Create the schema's tables in an empty database and fill them with rows that depend only on (seed, schema)."""
    rng = random.Random(f"{seed}/database/{schema.name}")
    for definition in table_definitions(schema):
        connection.execute(definition)
    parents = [(row, f"{schema.name}_{row:02d}", *_random_values(rng, schema.parent)) for row in range(PARENT_ROWS)]
    children = [(row, rng.randrange(PARENT_ROWS), *_random_values(rng, schema.child)) for row in range(CHILD_ROWS)]
    connection.executemany(f"INSERT INTO {schema.parent.name} VALUES (?, ?, ?, ?, ?)", parents)
    connection.executemany(f"INSERT INTO {schema.child.name} VALUES (?, ?, ?, ?, ?)", children)
    connection.execute(f"CREATE INDEX {schema.foreign_key}_index ON {schema.child.name} ({schema.foreign_key})")
    connection.commit()


def _random_values(rng: random.Random, table: Table) -> tuple:
    return (rng.choice(table.category.categories), *(rng.randint(*NUMBER_RANGE) for _ in table.numbers))


def example_values(connection: sqlite3.Connection, schema: Schema) -> dict[str, tuple]:
    """Each column's first two distinct values, keyed by "table.column", as `table_definitions` shows them."""
    examples = {}
    for table, keys in ((schema.parent, ("id", "name")), (schema.child, ("id", schema.foreign_key))):
        for column in (*keys, *(column.name for column in table.columns)):
            query = f"SELECT {column} FROM {table.name} GROUP BY {column} ORDER BY MIN(id) LIMIT 2"
            examples[f"{table.name}.{column}"] = tuple(value for (value,) in connection.execute(query))
    return examples
