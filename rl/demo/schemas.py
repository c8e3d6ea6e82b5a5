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


def _table(name: str, words: str, category: str, values: str, *numbers: str) -> Table:
    """Words are separated by blanks; the first one of a column is its name."""
    first, second = (Column(synonyms.split()[0], tuple(synonyms.split())) for synonyms in numbers)
    return Table(
        name,
        tuple(words.split()),
        Column(category.split()[0], tuple(category.split()), tuple(values.split())),
        (first, second),
    )


SHOP = Schema(
    "shop",
    _table("customers", "customers clients shoppers", "city town", "porto turin bergen cusco luxor",
           "age years", "points credit bonus"),
    _table("orders", "order purchase", "status state", "paid pending shipped returned",
           "total amount price", "items pieces units"),
    "customer_id",
)  # fmt: skip
SCHOOL = Schema(
    "school",
    _table("students", "students pupils learners", "major subject", "biology geology english sports dance",
           "height size", "workload load units"),
    _table("exams", "exam test", "course class", "geometry rhetoric ballet genetics",
           "score mark rating", "hours time effort"),
    "student_id",
)  # fmt: skip
FLIGHTS = Schema(
    "flights",
    _table("pilots", "pilots captains flyers", "base home", "madrid osaka mumbai bogota tunis",
           "seniority years", "salary pay bonus"),
    _table("flights", "flight trip", "airline carrier", "albatross buzzard condor dove",
           "delay lateness time", "distance reach length"),
    "pilot_id",
)  # fmt: skip
CLINIC = Schema(
    "clinic",
    _table("doctors", "doctors physicians medics", "ward department", "heart brain bones skin lungs",
           "shifts load", "grade rank rating"),
    _table("visits", "visit appointment", "reason cause", "vaccine cough fracture allergy",
           "cost fee price", "minutes duration length"),
    "doctor_id",
)  # fmt: skip

IN_DOMAIN = (SHOP, SCHOOL)
OUT_OF_DOMAIN = (FLIGHTS, CLINIC)
SCHEMAS = IN_DOMAIN + OUT_OF_DOMAIN


def table_definitions(schema: Schema) -> list[str]:
    """The two CREATE TABLE statements, the parent's first."""
    parent, child = schema.parent, schema.child
    parent_keys = [("id", "INTEGER PRIMARY KEY"), ("name", "TEXT")]
    child_keys = [("id", "INTEGER PRIMARY KEY"), (schema.foreign_key, f"INTEGER REFERENCES {parent.name} (id)")]
    return [_table_definition(parent, parent_keys), _table_definition(child, child_keys)]


def _table_definition(table: Table, keys: list[tuple[str, str]]) -> str:
    columns = keys + [(column.name, "TEXT" if column.categories else "INTEGER") for column in table.columns]
    return f"CREATE TABLE {table.name} (\n" + ",\n".join(f"    {name} {kind}" for name, kind in columns) + "\n);"


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
