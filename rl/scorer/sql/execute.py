"""Runs one statement, read-only, on a SQLite file: SELECT and nothing else, within limits.

What holds a statement: the file is opened with mode=ro; an authorizer allows only SELECT, READ, FUNCTION and
RECURSIVE, so ATTACH, PRAGMA, VACUUM INTO, temp tables, transactions and every write are refused when the statement is
prepared; a progress handler ends it at its time limit; values, rows and bytes are limited. Each statement has a
connection of its own, so nothing it could do reaches the next.

What does not hold here: one long call of a C function never reaches the progress handler, and memory is SQLite's to
take. The worker's process limits and the server's watchdog are for those (worker.py, pool.py).
"""

import marshal
import sqlite3
import time
from dataclasses import dataclass

Value = int | float | str | bytes | None
Row = tuple[Value, ...]

_ALLOWED_ACTIONS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
# Not the statement's fault: the file is locked, gone or unreadable at this moment.
_DATABASE_FAULTS = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_FULL,
    }
)
_PRIMARY_CODE = 0xFF
# About 0.1 ms of SQLite's virtual machine between two looks at the clock.
_OPERATIONS_PER_CHECK = 10_000
_ROWS_PER_FETCH = 256
# How long another process may hold the file's lock before that is a fault.
_LOCK_SECONDS = 0.5


class StatementError(Exception):
    """The statement cannot be run or breaks a limit; the text says how."""


class StatementTimeout(Exception):
    """The statement reached its time limit."""


class DatabaseFault(Exception):
    """The database could not be read just now, whatever the statement."""


@dataclass(frozen=True)
class Limits:
    """Bounds of one statement and its result. Bytes of a result are those of its marshalled rows."""

    sql_chars: int
    value_bytes: int
    rows: int
    bytes: int


def execute(uri: str, sql: str, seconds: float, limits: Limits) -> list[Row]:
    """All rows of the one statement `sql` on the database `uri` (a `file:` URI that opens read-only).

    Text is decoded as UTF-8 with errors ignored. Raises StatementTimeout after `seconds` of processor time, so that a
    busy machine does not decide, StatementError for SQL that fails, is refused, is more than one statement, yields no
    result set or breaks `limits`, DatabaseFault for a file that cannot be read, MemoryError.
    """
    if len(sql) > limits.sql_chars:
        raise StatementError(f"the SQL has {len(sql)} characters, more than {limits.sql_chars}")
    deadline = time.thread_time() + seconds
    try:
        # The statement is prepared once, so a statement cache would only cost.
        connection = sqlite3.connect(uri, _LOCK_SECONDS, uri=True, isolation_level=None, cached_statements=0)
        try:
            _restrict(connection, deadline, limits)
            return _fetch(connection, sql, limits)
        finally:
            connection.close()
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        primary = None if code is None else code & _PRIMARY_CODE
        if primary == sqlite3.SQLITE_INTERRUPT:
            raise StatementTimeout from None
        if primary in _DATABASE_FAULTS:
            raise DatabaseFault(str(error)) from None
        raise StatementError(str(error)) from None
    # Python 3.11 warns of a second statement; half a surrogate pair has no UTF-8, nor have some files' column names.
    except (sqlite3.Warning, UnicodeError) as error:
        raise StatementError(str(error)) from None


def _restrict(connection: sqlite3.Connection, deadline: float, limits: Limits) -> None:
    # Sorts stay in memory: a worker may not write a file (worker.py).
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.value_bytes)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0)
    connection.text_factory = lambda value: value.decode(errors="ignore")
    connection.set_authorizer(_authorize)
    connection.set_progress_handler(lambda: time.thread_time() > deadline, _OPERATIONS_PER_CHECK)


def _authorize(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED_ACTIONS else sqlite3.SQLITE_DENY


def _fetch(connection: sqlite3.Connection, sql: str, limits: Limits) -> list[Row]:
    # sqlite3 takes one semicolon and comments after a statement; more semicolons are harmless too.
    cursor = connection.execute(sql.rstrip("; \t\r\n"))
    if cursor.description is None:
        raise StatementError("the SQL holds no statement that returns rows")
    rows: list[Row] = []
    size = 0
    while chunk := cursor.fetchmany(_ROWS_PER_FETCH):
        rows += chunk
        size += len(marshal.dumps(chunk))
        if len(rows) > limits.rows:
            raise StatementError(f"the result has more than {limits.rows} rows")
        if size > limits.bytes:
            raise StatementError(f"the result has more than {limits.bytes} bytes")
    return rows
