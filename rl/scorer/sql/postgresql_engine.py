"""Runs statements, read-only, on a PostgreSQL server.

What confines a statement: it runs as the query of a cursor, for which the server's parser accepts only one SELECT,
VALUES or TABLE. Its transaction is read-only, limited by statement_timeout and rolled back. The role must not be able
to do more than read. Functions that change something, wait or are random are refused by name, because every role may
call them. Values, rows and bytes are limited. The session's settings are fixed, so that equal contents give equal
results.

The statement runs in the PostgreSQL server, which has to limit its memory and disk (docs/howto/scorer.md); its time is
measured by the clock.
"""

import math
import re
import time
from collections.abc import Callable
from decimal import Decimal
from types import SimpleNamespace

import psycopg
from psycopg.adapt import AdaptersMap, Buffer, Loader
from psycopg.types.numeric import IntDumper

from rl.common.time_limits import CONNECT_S, IDENTIFY_S
from rl.scorer.sql.execute import (
    ERROR_CHARS,
    LOCK_SECONDS,
    DamagedDatabase,
    DatabaseFault,
    LastConnections,
    Limits,
    Row,
    StatementError,
    StatementTimeout,
    Value,
    check_text,
    fetch_all,
)
from rl.scorer.sql.lexer import ambiguity, names

_CURSOR = "c"
_SESSION = {
    "default_transaction_read_only": "on",
    # Ends a statement within a second after its worker was killed.
    "client_connection_check_interval": "1000",
    # Fix text forms and row orders that depend on the session.
    "timezone": "UTC",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "synchronize_seqscans": "off",
    # All rows are fetched.
    "cursor_tuple_fraction": "1",
    "jit": "off",
}
_CALL_DENIED = re.compile(
    r"pg_(?!typeof$)\w*|lo_\w+|lo(?:read|write)|dblink\w*|postgres_fdw_\w+|crosstab\w*|connectby|xpath_table|\w+_to_xml\w*"
    r"|ts_(?:stat|rewrite)|set_config|setseed|nextval|setval|currval|lastval|txid_\w+|brin_\w+|gin_\w+"
    r"|(?:normal_)?rand(?:om\w*)?|gen_(?:random_\w+|salt)|uuid(?:v\d|_generate\w*)"
)
# TABLESAMPLE is random, and every statement changes the contents of these views.
_NAME_DENIED = re.compile(r"tablesample|pg_stat\w*|pg_locks")
_TOO_POWERFUL = """
    SELECT string_agg(rolname, ', ') FROM pg_roles WHERE
    rolname = current_user AND (rolsuper OR rolreplication OR rolcreaterole OR rolcreatedb)
    OR rolname IN ('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files', 'pg_write_all_data',
    'pg_signal_backend', 'pg_checkpoint', 'pg_maintain', 'pg_create_subscription') AND pg_has_role(oid, 'MEMBER')
"""
# Equal snapshots see equal contents: every change that is committed has taken a transaction number.
_IDENTITY = """
    SELECT oid, pg_postmaster_start_time()::text, pg_current_snapshot()::text FROM pg_database
    WHERE datname = current_database()
"""
_CANCELED = "57014"
# The statement itself used too much: memory, or temporary files beyond its role's limit.
_EXCESSES = ("53200", "53400")
# Lost connections, deadlocks, missing resources, roles or locks, shutdown, system errors, servers of foreign tables.
_FAULTS = ("08", "28", "40", "53", "55P03", "57P", "58", "HV")
_DAMAGES = ("XX001", "XX002")
# Digits of the largest float; larger numbers become texts.
_MOST_DIGITS = 308


class _UnknownDatabase(DatabaseFault):
    """The server has no database of that name."""


def _loader(convert: Callable[[bytes], Value]) -> type[Loader]:
    class Converted(Loader):
        def load(self, data: Buffer) -> Value:
            return convert(bytes(data))

    return Converted


def _number(value: float) -> Value:
    """The number, or NaN as a text, so that NaN equals NaN as in PostgreSQL."""
    return value if value == value else "NaN"


def _numeric(value: Decimal) -> Value:
    """A whole number, else the nearest float, so that an average is equal as decimal and as float."""
    if not value.is_finite():
        return _number(float(value))
    if value.adjusted() > _MOST_DIGITS:
        text = format(value, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    return int(value) if value == value.to_integral_value() else float(value)


# Results of both engines then compare alike: true is 1, the decimal 1.50 is 1.5, dates and all other types are texts.
_CONVERSIONS: dict[str, Callable[[bytes], Value]] = {
    **dict.fromkeys(("int2", "int4", "int8", "oid"), int),
    **dict.fromkeys(("float4", "float8"), lambda text: _number(float(text))),
    "numeric": lambda text: _numeric(Decimal(text.decode())),
    "bool": lambda text: int(text == b"t"),
    "bytea": lambda text: bytes.fromhex(text[2:].decode()),
}
_ADAPTERS = AdaptersMap(types=psycopg.postgres.types)
# Every other type becomes the server's text.
_ADAPTERS.register_loader(0, _loader(lambda text: text.decode(errors="ignore")))
for _type, _convert in _CONVERSIONS.items():
    _ADAPTERS.register_loader(_type, _loader(_convert))
_ADAPTERS.register_dumper(int, IntDumper)  # for the number of rows to fetch


class Executor(LastConnections[psycopg.Connection]):
    """As the Executor of execute.py. uri: the name of a database; its connection sees every version.

    connection: libpq's parameters, without dbname.
    """

    MOST_OPEN = 2  # in each worker
    mapped_bytes = 0

    def __init__(self, limits: Limits, connection: dict[str, str]):
        super().__init__()
        self._limits = limits
        self._parameters = connection

    def execute(self, uri: str, _version: str, sql: str, seconds: float) -> list[Row]:
        """All rows of the one statement `sql`, within `seconds` by the clock. Raises as in execute.py."""
        check_text(sql, self._limits)
        _check_names(sql)
        try:
            query = sql.rstrip("; \t\r\n").encode()
        except UnicodeError as error:  # half a surrogate pair
            raise StatementError(str(error)[:ERROR_CHARS]) from None
        connection = self._begin(uri, seconds)
        deadline = time.monotonic() + seconds
        try:
            with connection.cursor(_CURSOR) as cursor:
                cursor.execute(query)
                if not cursor.description:
                    raise StatementError("the SQL returns no columns")
                return fetch_all(cursor.fetchmany, self._limits, lambda: time.monotonic() > deadline)
        except psycopg.Error as error:
            raise _translated(error, time.monotonic() > deadline) from None
        finally:
            self._roll_back(uri)

    def identify(self, uri: str) -> dict:
        """A header whose `identity` changes with the database's content. Raises DatabaseFault."""
        try:
            [row] = self._begin(uri, IDENTIFY_S).execute(_IDENTITY).fetchall()
            return {"outcome": "identity", "identity": row}
        except _UnknownDatabase as error:
            return {"outcome": "unknown", "error": str(error)}
        except psycopg.Error as error:
            raise DatabaseFault(_said(error)) from None
        finally:
            self._roll_back(uri)

    def _begin(self, uri: str, seconds: float) -> psycopg.Connection:
        """A connection in a new transaction. Raises DatabaseFault."""
        limit = math.ceil(seconds * 1000)
        # Below the statement's own limit: a table locked by another transaction is a fault, not a timeout.
        lock_limit = max(min(int(LOCK_SECONDS * 1000), limit // 2), 1)
        begin = (
            f"BEGIN READ ONLY; SET LOCAL statement_timeout = {limit}; SET LOCAL lock_timeout = {lock_limit}".encode()
        )
        was_open = (uri, "") in self._open
        try:
            connection = self._connection(uri, "")
            connection.execute(begin)
            return connection
        except psycopg.Error as error:
            self.close(uri)
            if was_open:  # the connection may have been lost since
                return self._begin(uri, seconds)
            unknown = f'database "{uri}" does not exist' in str(error)
            raise (_UnknownDatabase if unknown else DatabaseFault)(_said(error)) from None

    def _connect(self, uri: str) -> psycopg.Connection:
        options = " ".join(f"-c {name}={value}" for name, value in _SESSION.items())
        always = {"dbname": uri, "options": options, "client_encoding": "utf8", "gssencmode": "disable"}
        return psycopg.connect(
            **{"connect_timeout": CONNECT_S, **self._parameters, **always},
            autocommit=True,
            context=SimpleNamespace(adapters=_ADAPTERS, connection=None),
        )

    def _prepare(self, connection: psycopg.Connection, uri: str) -> None:
        [(powers,)] = connection.execute(_TOO_POWERFUL).fetchall()
        if powers is not None:
            raise DatabaseFault(
                f"the role of the connection may do more than read ({powers}); give one with SELECT and nothing else"
            )

    def _roll_back(self, uri: str) -> None:
        try:
            if (uri, "") in self._open:
                self._connection(uri, "").execute(b"ROLLBACK")
        except psycopg.Error:
            self.close(uri)


def _check_names(sql: str) -> None:
    """StatementError for names that privileges do not deny."""
    if found := ambiguity(sql):
        raise StatementError(f"the SQL has {found}, which is not accepted")
    for name, called in names(sql):
        if called and _CALL_DENIED.fullmatch(name):
            raise StatementError(f"not authorized to use function: {name[:ERROR_CHARS]}")
        if _NAME_DENIED.fullmatch(name):
            raise StatementError(f"not authorized to use: {name[:ERROR_CHARS]}")


def _translated(error: psycopg.Error, late: bool) -> Exception:
    state, text = error.sqlstate, _said(error)
    if state is None:
        # libpq's own errors: the reply did not fit into the worker's memory, or there is no connection.
        return MemoryError() if "memory" in text else DatabaseFault(text)
    if state == _CANCELED:
        return StatementTimeout() if late else DatabaseFault(text)
    if state in _DAMAGES:
        return DamagedDatabase(text)
    if state.startswith(_FAULTS) and state not in _EXCESSES:
        return DatabaseFault(text)
    return StatementError(text)


def _said(error: psycopg.Error) -> str:
    return " ".join(str(error).split())[:ERROR_CHARS]
