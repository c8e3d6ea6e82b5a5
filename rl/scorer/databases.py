"""From a request's db_id to a SQLite file below database_path, with what identifies its present content."""

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

SUFFIXES = (".sqlite", ".sqlite3", ".db")
# The file format's version bytes (offset 18) are 2 for a database in WAL mode.
_WRITE_VERSION_OFFSET = 18
_WAL_VERSION = b"\x02"


class UnknownDatabase(Exception):
    """The db_id names no database that may be read; the text is the sentence for the client."""


@dataclass(frozen=True)
class Database:
    """uri: opens the file read-only. identity: changes when the file is replaced or written to."""

    uri: str
    identity: tuple


def find_database(root: Path, db_id: str) -> Database:
    """The database `db_id` below `root` (resolved).

    Raises UnknownDatabase for a file that is missing or has another suffix than SUFFIXES, and for a db_id that leaves
    `root`, by an absolute path, by `..` or by a symbolic link.
    """
    if "\0" in db_id or os.path.isabs(db_id):
        raise UnknownDatabase(f"db_id {db_id!r} is not a path relative to the server's database_path")
    try:
        path = os.path.realpath(root / db_id)
        if os.path.commonpath([root, path]) != str(root):
            raise UnknownDatabase(f"db_id {db_id!r} leads out of the server's database_path")
        if not path.endswith(SUFFIXES) or not os.path.isfile(path):
            raise UnknownDatabase(f"db_id {db_id!r} names no {', '.join(SUFFIXES)} file below the server's database_path")
        log = path + "-wal"
        log_identity = _identity(log) if os.path.exists(log) else None
        return Database(_read_only_uri(path, log_identity is None), (path, _identity(path), log_identity))
    except (OSError, UnicodeEncodeError) as error:
        raise UnknownDatabase(f"db_id {db_id!r} cannot be read: {error}") from None


def _identity(path: str) -> tuple[int, ...]:
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _read_only_uri(path: str, without_log: bool) -> str:
    uri = f"file:{quote(path)}?mode=ro"
    if without_log and _in_wal_mode(path):
        # SQLite would create the -wal and -shm files beside it even to read; without a log there is nothing in them.
        uri += "&immutable=1"
    return uri


def _in_wal_mode(path: str) -> bool:
    with open(path, "rb") as file:
        file.seek(_WRITE_VERSION_OFFSET)
        return file.read(1) == _WAL_VERSION
