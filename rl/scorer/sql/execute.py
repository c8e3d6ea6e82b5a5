"""Runs statements, read-only, on SQLite files: SELECT and nothing else, within limits.

What confines a statement: the file is opened with mode=ro. An authorizer allows only SELECT, READ, RECURSIVE and
FUNCTION (except five functions), so ATTACH, PRAGMA, VACUUM INTO, temp tables, transactions and every write are rejected
when the statement is prepared. A progress handler ends it at its time limit; values, rows and bytes are limited. No
allowed statement can change its connection, so a few connections stay open (opening a file and reading its schema takes
longer than most queries); after anything but a result or a plain SQL error, the connection is closed.

What is not confined here: one long call of a C function never reaches the progress handler, and SQLite may take any
memory. The worker's process limits and the server's watchdog handle these (worker.py, pool.py).
"""

import marshal
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Generic, NamedTuple, Protocol, TypeVar

from rl.scorer.sql.lexer import SQLITE_CLOCK, first_word

Value = int | float | str | bytes | None
Row = tuple[Value, ...]

_ALLOWED_ACTIONS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
# These change the connection or the process: a code library, a tokenizer given as an address in memory (with one
# argument: which address), a collation. Random numbers would make scores random; the date is allowed, because reference
# queries of BIRD compute ages.
_DENIED_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "icu_load_collation", "random", "randomblob"})
# Not the statement's fault: the file is locked, gone or unreadable now.
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
# No database, a damaged page, or a journal that a killed writer left to be rolled back.
_DAMAGES = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_READONLY})
_PRIMARY_CODE = 0xFF
# Operations of SQLite's virtual machine between two looks at the clock: about 0.1 ms.
_OPERATIONS_PER_CHECK = 10_000
_ROWS_PER_FETCH = 256
# No such column, a rejected action, a value that is too long: they leave nothing behind in the connection.
_PLAIN_ERRORS = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH})
_OPEN_FILES = 8
_MAPPED_BYTES = 256_000_000
# Of each open file, and of a sort. A file that is mapped as a whole needs no cache of its own.
_CACHE_KILOBYTES, _CACHE_KILOBYTES_OF_MAPPED = 32_000, 200_000
# SQLite's messages repeat names of any length.
ERROR_CHARS = 1000
# Ends the URI of a database with a -wal whose -shm is missing or unused, because the database was copied or its writer
# was killed. SQLite would write the -shm, which a worker may not; in exclusive mode it keeps that index in memory. That
# mode needs a lock that a file opened read-only cannot have, so no locks are taken.
PRIVATE_INDEX = "&vfs=unix-none"
# How long another process may hold the file's lock before that is a fault.
LOCK_SECONDS = 0.5


class StatementError(Exception):
    """The statement cannot be run or breaks a limit; the text is the reason."""


class DamagedDatabase(StatementError):
    """The statement needs a part of the database that is permanently unreadable."""


class StatementTimeout(Exception):
    """The statement reached its time limit."""


class DatabaseFault(Exception):
    """The database cannot be read now, whatever the statement."""


class Limits(NamedTuple):
    """Limits of one statement and its result. bytes: of the marshalled rows."""

    sql_chars: int
    value_bytes: int
    rows: int
    bytes: int


class _Closable(Protocol):
    def close(self) -> None: ...


Connection = TypeVar("Connection", bound=_Closable)


class LastConnections(Generic[Connection]):
    """Keeps the last MOST_OPEN databases open, each by one connection.

    clock: whether the last statement may have read the clock in a view of the database.
    """

    MOST_OPEN: int
    clock = False

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, str], Connection] = OrderedDict()

    def _connect(self, uri: str) -> Connection:
        raise NotImplementedError

    def _prepare(self, connection: Connection, uri: str) -> None:
        raise NotImplementedError

    def _connection(self, uri: str, version: str) -> Connection:
        """A connection to the database, opened again if its version has changed."""
        if (uri, version) not in self._open:
            self.close(uri)
            while len(self._open) >= self.MOST_OPEN:
                self._open.popitem(last=False)[1].close()
            connection = self._connect(uri)
            try:
                self._prepare(connection, uri)
            except BaseException:
                connection.close()
                raise
            self._open[uri, version] = connection
        self._open.move_to_end((uri, version))
        return self._open[uri, version]

    def close(self, uri: str) -> None:
        """Close the database, if it is open."""
        for key in [key for key in self._open if key[0] == uri]:
            self._open.pop(key).close()


class Executor(LastConnections[sqlite3.Connection]):
    """Runs statements within `limits` and keeps the last files open.

    The executor of PostgreSQL (postgresql_engine.py) has the same methods.
    """

    MOST_OPEN = _OPEN_FILES
    # Address space of mapped files, in addition to the memory of statements.
    mapped_bytes = _OPEN_FILES * _MAPPED_BYTES

    def __init__(self, limits: Limits):
        super().__init__()
        self._limits = limits
        self._temporary = "DEFAULT"

    def execute(self, uri: str, version: str, sql: str, seconds: float) -> list[Row]:
        """All rows of the one statement `sql` on the database `uri` (a `file:` URI that opens read-only).

        version: names the file's content; a new one reopens the file. Text is decoded as UTF-8 with errors ignored.

        Raises:
            StatementTimeout: after `seconds` of processor time, so that a busy machine does not decide.
            StatementError: the SQL fails, is rejected, has several statements or no result set, or breaks `limits`.
            DamagedDatabase: the file's content is at fault.
            DatabaseFault: the file cannot be read now.
            MemoryError: the process has no memory left.
        """
        check_text(sql, self._limits)
        if first_word(sql) == "EXPLAIN":
            # The authorizer sees only the explained statement.
            raise StatementError("EXPLAIN is not a SELECT")
        try:
            return self._execute(uri, version, sql, seconds)
        except DatabaseFault:
            pass
        # Its temporary tables may need a file, which a worker may not write (worker.py).
        self.close(uri)
        self._temporary = "MEMORY"
        try:
            return self._execute(uri, version, sql, seconds)
        finally:
            self._temporary = "DEFAULT"
            self.close(uri)

    def _execute(self, uri: str, version: str, sql: str, seconds: float) -> list[Row]:
        deadline = time.thread_time() + seconds
        self.clock = False
        try:
            connection = self._connection(uri, version)
            connection.set_progress_handler(lambda: time.thread_time() > deadline, _OPERATIONS_PER_CHECK)
            return _fetch(connection, sql, self._limits)
        # Python 3.11 warns of a second statement. Half a surrogate pair has no UTF-8, and so have some column names.
        except (sqlite3.Warning, UnicodeError) as error:
            raise StatementError(str(error)[:ERROR_CHARS]) from None
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code not in _PLAIN_ERRORS:
                self.close(uri)
            raise _translated(error, code) from None
        except MemoryError:
            self.close(uri)
            raise

    def _connect(self, uri: str) -> sqlite3.Connection:
        # No statement is prepared twice, so a statement cache would only cost time.
        return sqlite3.connect(uri, LOCK_SECONDS, uri=True, isolation_level=None, cached_statements=0)

    def _prepare(self, connection: sqlite3.Connection, uri: str) -> None:
        if uri.endswith(PRIVATE_INDEX):
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        # With the default, a sort within this cache stays in memory too, and takes a third less time than with MEMORY,
        # which allocates each row for itself.
        connection.execute(f"PRAGMA temp_store = {self._temporary}")
        [(size,)] = connection.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
        kilobytes = _CACHE_KILOBYTES_OF_MAPPED if size <= _MAPPED_BYTES else _CACHE_KILOBYTES
        connection.execute(f"PRAGMA cache_size = -{kilobytes}")
        # Reads pages of the system's cache without a copy: a sixth faster on tables larger than SQLite's own cache.
        connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, self._limits.value_bytes)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.setlimit(sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0)
        # SQLite creates these two tables at their first use, which the authorizer would reject as a write.
        connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')").close()
        connection.set_authorizer(self._authorize)

    def _authorize(self, action: int, _: str | None, detail: str | None, __: str | None, view: str | None) -> int:
        if action == sqlite3.SQLITE_FUNCTION:
            if detail in _DENIED_FUNCTIONS:
                return sqlite3.SQLITE_DENY
            self.clock |= view is not None and detail in SQLITE_CLOCK
        return sqlite3.SQLITE_OK if action in _ALLOWED_ACTIONS else sqlite3.SQLITE_DENY


def _translated(error: sqlite3.Error, code: int | None) -> Exception:
    """The exception of `execute` for SQLite's error."""
    primary = None if code is None else code & _PRIMARY_CODE
    if primary == sqlite3.SQLITE_INTERRUPT:
        return StatementTimeout()
    text = str(error)[:ERROR_CHARS]
    # A virtual table reports bad arguments, which a statement can pass, as corruption.
    if primary in _DAMAGES and code != sqlite3.SQLITE_CORRUPT_VTAB:
        return DamagedDatabase(text)
    return DatabaseFault(text) if primary in _DATABASE_FAULTS else StatementError(text)


def _fetch(connection: sqlite3.Connection, sql: str, limits: Limits) -> list[Row]:
    # sqlite3 accepts one semicolon and comments after a statement; more semicolons are harmless too.
    with closing(connection.execute(sql.rstrip("; \t\r\n"))) as cursor:
        if cursor.description is None:
            raise StatementError("the SQL holds no statement that returns rows")
        # The progress handler has the deadline.
        return fetch_all(partial(_fetch_rows, connection, cursor), limits, lambda: False)


def _fetch_rows(connection: sqlite3.Connection, cursor: sqlite3.Cursor, count: int) -> list[Row]:
    """The next rows. Once a text is not UTF-8, the connection ignores invalid bytes, which takes longer per text."""
    rows: list[Row] = []
    try:
        rows.extend(islice(cursor, count))
    except sqlite3.OperationalError as error:
        if connection.text_factory is not str or hasattr(error, "sqlite_errorcode"):
            raise
        connection.text_factory = lambda value: value.decode(errors="ignore")
        # The cursor is still on the row with that text.
        rows.extend(islice(cursor, count - len(rows)))
    return rows


def check_text(sql: str, limits: Limits) -> None:
    """StatementError for a text that is too long, or has a null character, at which an engine might end it."""
    if len(sql) > limits.sql_chars:
        raise StatementError(f"the SQL has {len(sql)} characters, more than {limits.sql_chars}")
    if "\0" in sql:
        raise StatementError("the SQL has a null character")


def fetch_all(fetch: Callable[[int], list[Row]], limits: Limits, deadline_passed: Callable[[], bool]) -> list[Row]:
    """All rows; `fetch(count)` returns the next rows, none at the end.

    Raises StatementError beyond `limits`, and StatementTimeout.
    """
    rows: list[Row] = []
    size = 0
    while not deadline_passed():
        if not (chunk := fetch(_ROWS_PER_FETCH)):
            return rows
        rows += chunk
        size += (chunk_bytes := len(marshalled(chunk)))
        if chunk_bytes > limits.value_bytes and _longest(chunk) > limits.value_bytes:
            raise StatementError(f"the result has a value of more than {limits.value_bytes} bytes")
        if len(rows) > limits.rows:
            raise StatementError(f"the result has more than {limits.rows} rows")
        if size > limits.bytes:
            raise StatementError(f"the result has more than {limits.bytes} bytes")
    raise StatementTimeout


def _longest(rows: list[Row]) -> int:
    """The longest text (in characters) or blob (in bytes)."""
    return max((len(value) for row in rows for value in row if isinstance(value, (str, bytes))), default=0)


def marshalled(rows: list | Row) -> bytes:
    """The rows as bytes. Raises MemoryError."""
    try:
        return marshal.dumps(rows)
    except ValueError:
        # marshal raises it for any object when memory runs out.
        raise MemoryError from None
