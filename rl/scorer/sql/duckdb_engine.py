"""Runs statements, read-only, on DuckDB files.

What confines a statement: DuckDB's own parser must find one SELECT without functions that read files, change something
or are random. The file is opened read-only; access to other files and extensions is off, and the configuration is
locked. A thread interrupts the statement at its time limit. Memory, values, rows and bytes are limited, and nothing is
spilled to disk. One thread computes, so that rows without ORDER BY always come in the same order.
"""

import json
import math
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from rl.scorer.sql.execute import (
    ERROR_CHARS,
    DamagedDatabase,
    DatabaseFault,
    LastConnections,
    Limits,
    Row,
    StatementError,
    StatementTimeout,
    check_text,
    fetch_all,
)
from rl.scorer.sql.lexer import names, reads_clock
from rl.scorer.sql.values import from_python

# DuckDB's share of the worker's memory; the rest is for objects of Python and of the parser.
_SHARE_OF_MEMORY = 0.5
_CONFIGURATION = {
    "threads": 1,
    "async_threads": 0,
    "temp_directory": "",
    "python_enable_replacements": False,
    "allow_community_extensions": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_persistent_secrets": False,
}
# Table functions that read only values of the statement.
_MAY_BE_CALLED = frozenset({"generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest"})
# It counts the statements of the connection.
_COUNTER = "txid_current"
_NOT_TO_BE_CALLED = """
    SELECT DISTINCT function_name, function_type = 'table' FROM duckdb_functions()
    WHERE database_name = 'system' AND (function_type = 'table' OR stability = 'VOLATILE' OR has_side_effects)
"""
_VIEWS_AND_MACROS = """
    SELECT view_name, sql FROM duckdb_views() WHERE NOT internal
    UNION ALL SELECT function_name, macro_definition FROM duckdb_functions()
    WHERE NOT internal AND macro_definition IS NOT NULL
"""
# In the parser's JSON, where a quote inside a text has a backslash.
_FUNCTION, _TABLE = (re.compile(rf'"{kind}_name":"((?:[^"\\]|\\.)*)"') for kind in ("function", "table"))
_OTHER_STATEMENTS = re.compile(r'"type":"(?:SHOW_REF|INSERT|UPDATE|DELETE|MERGE)')
_SAMPLE = '"sample":{'
_SAMPLE_IN_TEXT = re.compile(r"\b(?:USING\s+SAMPLE|TABLESAMPLE)\b", re.IGNORECASE)
# The file's content is at fault, not the access to it.
_DAMAGED = re.compile("not a valid DuckDB|version number|checksum|corrupt|Invalid Input", re.IGNORECASE)
_MEMORY = re.compile("bad.?alloc|out of memory|failed to allocate", re.IGNORECASE)
# After any other error the connection is closed.
_PLAIN_ERRORS = (
    *(duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError, duckdb.IntegrityError),
    *(duckdb.PermissionException, duckdb.InterruptException, duckdb.SequenceException),
)


class Executor(LastConnections[duckdb.DuckDBPyConnection]):
    """As the Executor of execute.py. uri: path of a file.

    denied: functions that must not be called. _random, _timed: by uri, the names of the database's views and macros
    that call one of _random_functions or take a sample, and of those that read the clock.
    """

    MOST_OPEN = 4
    mapped_bytes = 0

    def __init__(self, limits: Limits, memory_bytes: int):
        super().__init__()
        self._limits = limits
        self._configuration = {**_CONFIGURATION, "memory_limit": f"{int(memory_bytes * _SHARE_OF_MEMORY)}B"}
        self.denied: set[str] = set()
        self._random_functions: set[str] = set()
        self._random: dict[str, set[str]] = {}
        self._timed: dict[str, set[str]] = {}

    def execute(self, uri: str, version: str, sql: str, seconds: float) -> list[Row]:
        """All rows of the one statement `sql`, within `seconds` of processor time. Raises as in execute.py."""
        check_text(sql, self._limits)
        deadline = math.inf
        try:
            connection = self._connection(uri, version)
            # Whether the database was already open must not decide.
            deadline = time.process_time() + seconds
            with _interrupted_at(deadline, connection):
                self._check_select(connection, uri, sql)
                result = connection.execute(sql)

                def fetch(count: int) -> list[Row]:
                    return [tuple(map(from_python, row)) for row in result.fetchmany(count)]

                return fetch_all(fetch, self._limits, lambda: time.process_time() > deadline)
        # Half a surrogate pair has no UTF-8.
        except UnicodeError as error:
            raise StatementError(str(error)[:ERROR_CHARS]) from None
        except (duckdb.Error, RuntimeError) as error:
            if not isinstance(error, _PLAIN_ERRORS):
                self.close(uri)
            raise _translated(error, time.process_time() > deadline) from None
        except MemoryError:
            self.close(uri)
            raise

    def _connect(self, uri: str) -> duckdb.DuckDBPyConnection:
        return duckdb.connect(uri, read_only=True, config=self._configuration)

    def _prepare(self, connection: duckdb.DuckDBPyConnection, uri: str) -> None:
        found = connection.execute(_NOT_TO_BE_CALLED).fetchall()
        self.denied = {name for name, _ in found} - _MAY_BE_CALLED | {_COUNTER}
        # A view's text may have the names of table functions, such as summary, as its own: summary(a, b) AS ...
        self._random_functions = {name for name, of_tables in found if not of_tables} | {_COUNTER}
        connection.execute("SET TimeZone = 'UTC'")
        texts = dict[str, str]()
        for name, sql in connection.execute(_VIEWS_AND_MACROS).fetchall():
            # One name may have several: in two schemas, or for other numbers of arguments.
            texts[name.lower()] = f"{texts.get(name.lower(), '')}\n{sql}"
        self._random[uri] = _using(texts, {name for name in texts if self._is_random(texts[name])})
        self._timed[uri] = _using(texts, {name for name in texts if reads_clock(texts[name], "duckdb")})
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")

    def _check_select(self, connection: duckdb.DuckDBPyConnection, uri: str, sql: str) -> None:
        """StatementError unless the text is one SELECT that calls no denied function, also not in a view or macro."""
        [(parsed,)] = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
        if parsed.startswith('{"error":true') or _OTHER_STATEMENTS.search(parsed):
            reason = json.loads(parsed).get("error_message") or "Only SELECT statements are run"
            raise StatementError(reason[:ERROR_CHARS])
        if len(connection.extract_statements(sql)) != 1:
            raise StatementError("the SQL is not one statement")
        functions, tables = ({name.lower() for name in kind.findall(parsed)} for kind in (_FUNCTION, _TABLE))
        self.clock = not self._timed[uri].isdisjoint(functions | tables)
        for name in sorted(functions & self.denied | (functions | tables) & self._random[uri]):
            raise StatementError(f"not authorized to use function: {name}")
        if _SAMPLE in parsed:
            raise StatementError("not authorized to use a sample")

    def _is_random(self, sql: str) -> bool:
        calls = {name for name, called in names(sql) if called}
        return not calls.isdisjoint(self._random_functions) or _SAMPLE_IN_TEXT.search(sql) is not None


def _using(texts: dict[str, str], found: set[str]) -> set[str]:
    """`found`, and the views and macros whose texts have one of these names, directly or by others."""
    words = {name: {word for word, _ in names(text)} - {name} for name, text in texts.items()}
    while more := {name for name in texts if name not in found and not found.isdisjoint(words[name])}:
        found = found | more
    return found


@contextmanager
def _interrupted_at(deadline: float, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Interrupt the connection when the process has used `deadline` seconds of processor time."""
    done = threading.Event()

    def watch() -> None:
        # Only the statement's thread computes, so the clock cannot be ahead of the processor time.
        while not done.wait(max(deadline - time.process_time(), 0.01)):
            if time.process_time() > deadline:
                connection.interrupt()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _translated(error: Exception, late: bool) -> Exception:
    text = str(error)[:ERROR_CHARS]
    if isinstance(error, duckdb.InterruptException):
        return StatementTimeout() if late else DatabaseFault(text)
    if isinstance(error, duckdb.OutOfMemoryException) or _MEMORY.search(text):
        return MemoryError()
    if isinstance(error, (duckdb.IOException, duckdb.SerializationException)):
        return DamagedDatabase(text) if _DAMAGED.search(text) else DatabaseFault(text)
    return StatementError(text)
