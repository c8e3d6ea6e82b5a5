"""Database files that cannot be read, are damaged, copied or rewritten: never a wrong reward, never a 404."""

import errno
import os
import resource
import shutil
import sqlite3
from pathlib import Path

import pytest

from rl.scorer import databases
from tests.scorer.conftest import Scorer, fenced


def make(path: Path, *values: int) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (a)")
    connection.executemany("INSERT INTO t VALUES (?)", [(value,) for value in values])
    connection.commit()
    connection.close()


ERRORS = {
    "ENOENT": databases.UnknownQuestion,
    "ENOTDIR": databases.UnknownQuestion,
    "ENAMETOOLONG": databases.UnknownQuestion,
    "ELOOP": databases.UnknownQuestion,
    "EMFILE": databases.DatabaseUnreadable,
    "EIO": databases.DatabaseUnreadable,
    "ESTALE": databases.DatabaseUnreadable,
    "EACCES": databases.DatabaseUnreadable,
}


@pytest.mark.parametrize("name", ERRORS)
def test_only_a_file_that_is_not_there_is_unknown(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "a.sqlite", 1)
    root = tmp_path.resolve()
    databases.find_database(root, "a.sqlite")
    code = getattr(errno, name)

    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(databases.os, "stat", fail)
    with pytest.raises(ERRORS[name], match="a.sqlite"):
        databases.find_database(root, "a.sqlite")


def test_a_database_that_cannot_be_read_is_an_infra_error(scorer: Scorer) -> None:
    """The server has no descriptor left to look into a file in WAL mode."""
    path = scorer.databases / "descriptors.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (a)")
    connection.close()
    _, hard = resource_limit(scorer.process.pid, None)
    scorer.client.get("/heartbeat")
    # What is open stays open, the request's connection too.
    resource_limit(scorer.process.pid, (3, hard))
    try:
        question = {"db_id": "descriptors.sqlite", "gold_sql": "SELECT 1", "cmp_method": "bird"}
        body = {"questions": [{"question": question, "responses": [fenced("SELECT 1")]}]}
        reply = scorer.client.post("/v1/score", json=body)
        assert reply.status_code == 200, reply.text
        [[answer]] = reply.json()["answers"]
        assert answer["outcome"] == "infra_error" and "Too many open files" in answer["error"]
        reply = scorer.put([fenced("SELECT 1")], "SELECT 1", db_id="descriptors.sqlite")
        assert reply.status_code == 503 and reply.json()["busy"] is True
    finally:
        resource_limit(scorer.process.pid, (hard, hard))
    assert scorer.outcome("SELECT 1", db_id="descriptors.sqlite") == "match"


def resource_limit(process: int, limit: tuple[int, int] | None) -> tuple[int, int]:
    """The limit of a process's open files, which `limit` replaces."""
    arguments = () if limit is None else (limit,)
    return resource.prlimit(process, resource.RLIMIT_NOFILE, *arguments)


def test_a_log_whose_index_nobody_uses_is_read_and_left_alone(scorer: Scorer) -> None:
    """As a database in use looks when it was copied with its log."""
    original = scorer.databases / "original.sqlite"
    writer = sqlite3.connect(original, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    make(original, 1)
    writer.execute("INSERT INTO t VALUES (2)")
    for suffix in ("", "-wal"):
        shutil.copy(f"{original}{suffix}", scorer.databases / f"copied.sqlite{suffix}")
    (scorer.databases / "emptied.sqlite-shm").touch()
    for suffix in ("", "-wal"):
        shutil.copy(f"{original}{suffix}", scorer.databases / f"emptied.sqlite{suffix}")
    for suffix in ("", "-wal", "-shm"):
        shutil.copy(f"{original}{suffix}", scorer.databases / f"whole.sqlite{suffix}")
    writer.close()
    for name in ("copied", "emptied", "whole"):
        before = {path.name: path.read_bytes() for path in scorer.databases.glob(f"{name}*")}
        for method in ("bird", "spider"):
            scores = scorer.score([fenced("SELECT a FROM t")], "SELECT 1 UNION SELECT 2", method, f"{name}.sqlite")
            assert scores["Scorer1"] == [[1.0, [["result", [[1], [2]]]]]], name
        assert {path.name: path.read_bytes() for path in scorer.databases.glob(f"{name}*")} == before


def test_a_log_whose_index_is_in_use_is_read_with_its_writer(scorer: Scorer) -> None:
    path = scorer.databases / "live.sqlite"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    make(path, 1)
    for value in (2, 3):
        writer.execute("INSERT INTO t VALUES (?)", (value,))
        gold = f"SELECT {value}"
        assert scorer.outcome("SELECT max(a) FROM t", gold, db_id="live.sqlite") == "match"
    writer.close()


def test_a_damaged_page_that_gold_does_not_read_is_no_fault_of_the_response(scorer: Scorer) -> None:
    path = scorer.databases / "damaged.sqlite"
    make(path, 1)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE other (a)")
    connection.execute("INSERT INTO other VALUES (1)")
    connection.commit()
    [(page, size)] = connection.execute(
        "SELECT rootpage, page_size FROM sqlite_master, pragma_page_size WHERE name = 'other'"
    )
    connection.close()
    with open(path, "r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    assert scorer.outcome("SELECT a FROM t", "SELECT a FROM t", db_id="damaged.sqlite") == "match"
    assert scorer.outcome("SELECT missing FROM t", "SELECT a FROM t", db_id="damaged.sqlite") == "pred_error"
    reply = scorer.put([fenced("SELECT a FROM other")], "SELECT a FROM t", db_id="damaged.sqlite")
    assert reply.status_code == 503 and "malformed" in reply.json()["error"]
    # Gold that reads it cannot be evaluated, today and tomorrow.
    assert scorer.outcome("SELECT 1", "SELECT a FROM other", db_id="damaged.sqlite") == "gold_error"


def test_a_file_rewritten_in_place_with_its_old_time_is_read_anew(scorer: Scorer) -> None:
    path = scorer.databases / "restored.sqlite"
    make(path, 1)
    other = scorer.directory / "other.sqlite"
    make(other, 2)
    status = path.stat()
    assert scorer.outcome("SELECT 1", "SELECT a FROM t", db_id="restored.sqlite") == "match"
    path.write_bytes(other.read_bytes())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (path.stat().st_mtime_ns, path.stat().st_size) == (status.st_mtime_ns, status.st_size)
    assert scorer.outcome("SELECT 1", "SELECT a FROM t", db_id="restored.sqlite") == "mismatch"
    assert scorer.outcome("SELECT 2", "SELECT a FROM t", db_id="restored.sqlite") == "match"
