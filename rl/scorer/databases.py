"""Finds the database of a db_id below database_path, and the identity of its present content."""

import errno
import fcntl
import os
import stat
import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from rl.scorer.outcomes import UnknownQuestion
from rl.scorer.sql.engines import ENGINES
from rl.scorer.sql.execute import PRIVATE_INDEX

# The file format's version bytes (offset 18) are 2 for a database in WAL mode.
_WRITE_VERSION_OFFSET = 18
_WAL_VERSION = b"\x02"
# Linux's struct flock, and the byte of a -shm file that its users lock (SQLite's UNIX_SHM_DMS).
_FLOCK = "hhqqi4x"
_INDEX_LOCK = 128
# Errors for a path that cannot name a file.
_NO_SUCH_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})


class DatabaseUnreadable(Exception):
    """The file may exist, but the server cannot look at it now; the text is the reason."""


@dataclass(frozen=True)
class Database:
    """A database with its present content.

    uri: opens a SQLite file read-only, and ends with PRIVATE_INDEX (execute.py) if its log needs that; for PostgreSQL
    the database's name. identity: changes when the content does.
    """

    uri: str
    identity: tuple

    @property
    def version(self) -> str:
        """The identity as text, for workers."""
        return repr(self.identity)


def find_database(root: Path, db_id: str) -> Database:
    """The database `db_id` below `root` (resolved).

    Raises:
        UnknownQuestion: the file is missing or has no suffix of SQLite, or the db_id leaves `root` by an absolute
            path, `..` or a symbolic link.
        DatabaseUnreadable: the system does not let the server look at it: no permission, no descriptor left, a disk or
            file server that fails.
    """
    if "\0" in db_id or os.path.isabs(db_id):
        raise UnknownQuestion(f"db_id {db_id!r} is not a path relative to the server's database_path")
    suffixes = ENGINES["sqlite"].suffixes
    try:
        path = os.path.realpath(root / db_id)
        if not path.startswith(os.path.join(root, "")):
            raise UnknownQuestion(f"db_id {db_id!r} leads out of the server's database_path")
        status = os.stat(path)
        if not path.endswith(suffixes) or not stat.S_ISREG(status.st_mode):
            raise UnknownQuestion(f"db_id {db_id!r} is not a {' or '.join(suffixes)} file below database_path")
        # A copy that preserves times (cp -p, rsync -t) resets st_mtime but not st_ctime.
        content = (*_identity(status), status.st_ctime_ns)
        log = _log_identity(path, "-wal")
        identity = (path, content, log)
        return Database(_read_only_uri(*identity, log is not None and _log_index_in_use(path)), identity)
    except FileNotFoundError:
        raise UnknownQuestion(f"db_id {db_id!r} names no file below {root} (--database-path of the server)") from None
    except (OSError, UnicodeEncodeError) as error:
        absent = isinstance(error, UnicodeEncodeError) or error.errno in _NO_SUCH_FILE
        raise (UnknownQuestion if absent else DatabaseUnreadable)(f"db_id {db_id!r} cannot be read: {error}") from None


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _log_identity(path: str, suffix: str) -> tuple[int, ...] | None:
    """A log's identity without st_ctime, which SQLite changes as root whenever it opens the log (fchown)."""
    try:
        return _identity(os.stat(path + suffix))
    except FileNotFoundError:
        return None


def _log_index_in_use(path: str) -> bool:
    """Whether a process uses the -shm file, in which it then holds a lock; a leftover file is useless."""
    try:
        with open(path + "-shm", "rb") as file:
            asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, _INDEX_LOCK, 1, 0)
            return struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))[0] != fcntl.F_UNLCK
    except FileNotFoundError:
        return False


# Cached by the file's identity, so that a file is opened once and not for every request.
@lru_cache(maxsize=4096)
def _read_only_uri(path: str, _: tuple[int, ...], log: tuple[int, ...] | None, index_in_use: bool) -> str:
    uri = f"file:{quote(path)}?mode=ro"
    if log is not None and not index_in_use:
        return uri + PRIVATE_INDEX
    if log is None and _in_wal_mode(path):
        # Even to read, SQLite would create -wal and -shm files beside it; without a log they would be empty.
        uri += "&immutable=1"
    return uri


def _in_wal_mode(path: str) -> bool:
    with open(path, "rb") as file:
        file.seek(_WRITE_VERSION_OFFSET)
        return file.read(1) == _WAL_VERSION
