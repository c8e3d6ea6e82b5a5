"""The schema of a database as the prompts show it, on databases that SQLite makes here."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from rl.data.prepare.schema import Schema, SchemaError, add_declared_keys, read_schema
from rl.scorer.databases import find_database
from tests.data.prepare.conftest import write_database


def schema_of(path) -> Schema:
    return read_schema(f"file:{path}?mode=ro")


def test_definition_has_keys_types_and_first_values(tmp_path):
    """A foreign key to a table or column that does not exist is not shown."""
    path = write_database(
        tmp_path / "shop.sqlite",
        "CREATE TABLE customer (id INTEGER PRIMARY KEY, name VARCHAR (20), note)",
        "CREATE TABLE sale (day DATE, customer_id INTEGER REFERENCES gone (x), price REAL REFERENCES sale (missing), "
        "PRIMARY KEY (customer_id, day), FOREIGN KEY (customer_id) REFERENCES Customer (ID))",
        "INSERT INTO customer VALUES (1, 'Ann', NULL), (2, 'Ann', ''), (3, 'Bob', NULL), (4, 'Eve', NULL)",
        "INSERT INTO sale VALUES ('2020-01-01', 1, 9.5)",
    )
    assert schema_of(path).definitions() == (
        "CREATE TABLE customer (\n"
        "    id INTEGER, -- e.g. 1, 2\n"
        "    name VARCHAR (20), -- e.g. 'Ann', 'Bob'\n"
        "    note,\n"
        "    PRIMARY KEY (id)\n"
        ");\n\n"
        "CREATE TABLE sale (\n"
        "    day DATE, -- e.g. '2020-01-01'\n"
        "    customer_id INTEGER, -- e.g. 1\n"
        "    price REAL, -- e.g. 9.5\n"
        "    PRIMARY KEY (customer_id, day),\n"
        "    FOREIGN KEY (customer_id) REFERENCES customer (id)\n"
        ");"
    )


def test_odd_names_are_quoted_so_that_sqlite_reads_them(tmp_path):
    names = ["order", "Total (USD)", "back`tick", 'quo"te', "1st", "naïve", "group", "plain_2"]
    columns = ", ".join('"' + name.replace('"', '""') + '" TEXT' for name in names)
    path = write_database(tmp_path / "odd.sqlite", f'CREATE TABLE "select" ({columns})')
    definition = schema_of(path).definitions()
    assert "    plain_2 TEXT\n" in definition and "    `order` TEXT,\n" in definition
    again = write_database(tmp_path / "again.sqlite", definition)
    assert schema_of(again) == schema_of(path)


def test_values_stay_short_and_on_their_line(tmp_path):
    path = write_database(
        tmp_path / "values.sqlite",
        "CREATE TABLE t (a, b, c, d, e)",
        ("INSERT INTO t VALUES (?, ?, ?, ?, ?)", ("x" * 500, b"\x00\xff" * 500, "two\nlines; -- it's", 1e400, 1)),
        "INSERT INTO t VALUES (NULL, NULL, CAST(x'ff41' AS TEXT), 0.1, 1.0)",
    )
    assert schema_of(path).definitions().splitlines()[1:-1] == [
        f"    a, -- e.g. '{'x' * 60}...'",
        "    b, -- e.g. x'00ff00ff00ff00ff...'",
        r"    c, -- e.g. 'two\nlines; -- it''s', 'A'",
        "    d, -- e.g. 9e999, 0.1",
        "    e -- e.g. 1, 1.0",
    ]


def test_wide_and_generated_columns_views_and_shadow_tables(tmp_path):
    path = write_database(
        tmp_path / "wide.sqlite",
        f"CREATE TABLE wide ({', '.join(f'c{number} INTEGER' for number in range(800))})",
        f"INSERT INTO wide VALUES ({', '.join(map(str, range(800)))})",
        "CREATE TABLE g (a INTEGER, b INTEGER GENERATED ALWAYS AS (a + 1))",
        "INSERT INTO g VALUES (1)",
        "CREATE VIEW v AS SELECT * FROM g",
        "CREATE VIRTUAL TABLE search USING fts5(body)",
    )
    schema = schema_of(path)
    assert [table.name for table in schema.tables] == ["wide", "g", "search"]
    assert (
        "    c799 INTEGER -- e.g. 799\n" in schema.definitions() and "    b INTEGER -- e.g. 2\n" in schema.definitions()
    )


def test_examples_are_left_out_by_size(tmp_path):
    path = write_database(
        tmp_path / "n.sqlite",
        "CREATE TABLE small (a)",
        "INSERT INTO small VALUES ('short')",
        "CREATE TABLE empty (b)",
        "CREATE TABLE large (c)",
        *[f"INSERT INTO large VALUES ('longer text {n}')" for n in range(50)],
    )
    schema = schema_of(path)
    assert schema.tables_with_examples == 2
    shown = [[value for value in ("short", "longer") if value in schema.definitions(n)] for n in range(3)]
    assert shown == [["short", "longer"], ["short"], []]


def test_a_file_that_is_not_a_database_is_named(tmp_path):
    for content, sentence in (("not a database, but long" * 9, "file is not a database"), ("", "has no table")):
        (tmp_path / "x.sqlite").write_text(content)
        with pytest.raises(SchemaError, match=sentence):
            schema_of(tmp_path / "x.sqlite")


def test_a_database_that_was_copied_with_its_log_is_read_as_the_scorer_reads_it(tmp_path):
    with closing(sqlite3.connect(tmp_path / "used.sqlite", isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE t (a)")
        for suffix in ("", "-wal"):
            shutil.copy(f"{tmp_path / 'used.sqlite'}{suffix}", f"{tmp_path / 'copied.sqlite'}{suffix}")
    assert [table.name for table in read_schema(find_database(tmp_path, "copied.sqlite").uri).tables] == ["t"]


def test_keys_of_spiders_tables_json(tmp_path):
    path = write_database(
        tmp_path / "s.sqlite", "CREATE TABLE Singer (Singer_ID int, Name text)", "CREATE TABLE song (singer_id int)"
    )
    declared = {
        "table_names_original": ["singer", "song"],
        "column_names_original": [[-1, "*"], [0, "singer_ID"], [0, "name"], [1, "Singer_ID"]],
        "primary_keys": [1],
        "foreign_keys": [[3, 1], [3, 1]],
    }
    definition = add_declared_keys(schema_of(path), declared).definitions()
    assert "PRIMARY KEY (Singer_ID)" in definition
    assert definition.count("FOREIGN KEY (singer_id) REFERENCES Singer (Singer_ID)") == 1
