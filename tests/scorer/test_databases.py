"""Database files that cannot be read, are damaged, copied or rewritten: never a wrong reward, never a 404."""

import errno
import os
import resource
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest

from rl.scorer import databases
from tests.scorer.conftest import Scorer, fenced, make_database, question

ONE_ROW = "CREATE TABLE t (a); INSERT INTO t VALUES (1);"
ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
ERRORS = dict.fromkeys(ABSENT, databases.UnknownQuestion)
ERRORS |= dict.fromkeys((errno.EMFILE, errno.EIO, errno.ESTALE, errno.EACCES), databases.DatabaseUnreadable)


def test_only_a_file_that_is_not_there_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_database(tmp_path / "a.sqlite", ONE_ROW)
    root = tmp_path.resolve()
    databases.find_database(root, "a.sqlite")
    for code, kind in ERRORS.items():
        with monkeypatch.context() as patch, pytest.raises(kind, match="a.sqlite"):
            patch.setattr(databases.os, "stat", Mock(side_effect=OSError(code, os.strerror(code))))
            databases.find_database(root, "a.sqlite")


def test_a_database_that_cannot_be_read_is_an_infra_error(scorer: Scorer) -> None:
    """The server has no free descriptor to look into a file in WAL mode."""
    path = scorer.databases / "descriptors.sqlite"
    make_database(path, "PRAGMA journal_mode = WAL; CREATE TABLE t (a)")
    _, hard = resource.prlimit(scorer.process.pid, resource.RLIMIT_NOFILE)
    scorer.client.get("/heartbeat")
    # Open descriptors, and the request's connection, stay open.
    resource.prlimit(scorer.process.pid, resource.RLIMIT_NOFILE, (3, hard))
    try:
        [[answer]] = scorer.answers(question("SELECT 1", "SELECT 1", db_id="descriptors.sqlite"))
        assert answer["outcome"] == "infra_error" and "Too many open files" in answer["error"]
        reply = scorer.put([fenced("SELECT 1")], "SELECT 1", db_id="descriptors.sqlite")
        assert reply.status_code == 503 and reply.json()["busy"] is True
    finally:
        resource.prlimit(scorer.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
    assert scorer.outcome("SELECT 1", db_id="descriptors.sqlite") == "match"


def test_a_log_whose_index_nobody_uses_is_read_and_left_alone(scorer: Scorer) -> None:
    """A database in use that was copied with its log."""
    original = scorer.databases / "original.sqlite"
    writer = sqlite3.connect(original, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    make_database(original, ONE_ROW)
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
    make_database(path, ONE_ROW)
    for value in (2, 3):
        writer.execute("INSERT INTO t VALUES (?)", (value,))
        gold = f"SELECT {value}"
        assert scorer.outcome("SELECT max(a) FROM t", gold, db_id="live.sqlite") == "match"
    writer.close()


def test_a_damaged_page_that_gold_does_not_read_is_not_the_fault_of_the_response(scorer: Scorer) -> None:
    path = scorer.databases / "damaged.sqlite"
    make_database(path, f"{ONE_ROW} CREATE TABLE other (a); INSERT INTO other VALUES (1)")
    where = "SELECT rootpage, page_size FROM sqlite_master, pragma_page_size WHERE name = 'other'"
    with closing(sqlite3.connect(path)) as connection:
        [(page, size)] = connection.execute(where)
    with open(path, "r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    assert scorer.outcome("SELECT a FROM t", "SELECT a FROM t", db_id="damaged.sqlite") == "match"
    assert scorer.outcome("SELECT missing FROM t", "SELECT a FROM t", db_id="damaged.sqlite") == "pred_error"
    reply = scorer.put([fenced("SELECT a FROM other")], "SELECT a FROM t", db_id="damaged.sqlite")
    assert reply.status_code == 503 and "malformed" in reply.json()["error"]
    # Gold that reads it can never be evaluated.
    assert scorer.outcome("SELECT 1", "SELECT a FROM other", db_id="damaged.sqlite") == "gold_error"


def test_a_changed_database_is_read_anew(scorer: Scorer) -> None:
    path, other = scorer.databases / "changing.sqlite", scorer.directory / "other.sqlite"

    def rows() -> list:
        answer = scorer.score([fenced("SELECT a FROM t")], "SELECT a FROM t", db_id="changing.sqlite")
        assert answer["Scorer1"][0][0] == 1.0
        return answer["Scorer1"][0][1][0][1]

    make_database(path, ONE_ROW)
    assert rows() == [[1]]
    make_database(path, "UPDATE t SET a = 2")
    assert rows() == [[2]]
    # It keeps its old time and size.
    shutil.copy(path, other)
    make_database(other, "UPDATE t SET a = 3")
    status = path.stat()
    path.write_bytes(other.read_bytes())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (path.stat().st_mtime_ns, path.stat().st_size) == (status.st_mtime_ns, status.st_size)
    assert rows() == [[3]]
    # Another file of the same name.
    make_database(other, "UPDATE t SET a = 4")
    os.replace(other, path)
    assert rows() == [[4]]
