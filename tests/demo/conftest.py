"""A small task, written once for all tests of the demo."""

import sqlite3

import pytest

from rl.demo.questions import SCHEMAS
from rl.demo.task import TaskSettings, make_task

SMALL = TaskSettings(seed=3, train=40, eval=20, sft=150)


@pytest.fixture(scope="session")
def small_task(tmp_path_factory):
    """The folder of a task with SMALL's settings."""
    folder = tmp_path_factory.mktemp("demo") / "task%41#"
    make_task(folder, SMALL)
    return folder


@pytest.fixture(scope="session")
def databases(small_task):
    """A connection to each schema's database, by its name."""
    connections = {schema.name: sqlite3.connect(small_task / "databases" / schema.db_id) for schema in SCHEMAS}
    yield connections
    for connection in connections.values():
        connection.close()
