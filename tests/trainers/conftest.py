"""A scorer server for the tests that run in the environment of `make test-trainers`, without torch."""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.programs import serving

NAMES = "SELECT name FROM item"
SQL = {"db_id": "shop.sqlite", "gold_sql": NAMES, "cmp_method": "bird"}
SETTINGS = """
ScorerServer: {{port: 0}}
Scorers:
  Scorer1: {{class_name: SqlRewardModel, database_path: {folder}, num_instances: 1}}
  Scorer2: {{class_name: MathRewardModel, num_instances: 1}}
"""


@pytest.fixture(scope="session")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running server for SQL and math."""
    folder = tmp_path_factory.mktemp("scorer")
    with closing(sqlite3.connect(folder / "shop.sqlite")) as database:
        database.executescript("CREATE TABLE item (name TEXT); INSERT INTO item VALUES ('apple'), ('pear');")
    (folder / "scorer.yaml").write_text(SETTINGS.format(folder=folder))
    with serving([sys.executable, "-m", "rl.scorer", "-c", folder / "scorer.yaml"], folder) as (_, address):
        yield address
