"""A table of the engines for SQL, and the connection to PostgreSQL, which is a separate server.

Standard library only: workers for SQLite and the `--help` of the server read this table.
"""

import os
import re
import socket
from typing import TYPE_CHECKING, Literal, NamedTuple

_PASSWORD = re.compile(r"\bpassword\s*=|://[^/@]*:[^/@]*@")


class Engine(NamedTuple):
    """Facts about an engine.

    databases: what a db_id names. module: of its Executor, below rl.scorer.sql. fences: a pattern of the names that a
    block of SQL may have in a response. suffixes: of the files that are its databases. package: its driver; None for
    the standard library. in_server: whether the databases are in a server, which is reached by a connection, and not
    below a database_path.
    """

    databases: str
    module: str
    fences: str
    suffixes: tuple[str, ...] = ()
    package: str | None = None
    in_server: bool = False


ENGINES: dict[str, Engine] = {
    "sqlite": Engine(
        databases="a file",
        module="execute",
        fences="sql(?:ite)?",
        suffixes=(".sqlite", ".sqlite3", ".db"),
    ),
    "postgresql": Engine(
        databases="a database in a PostgreSQL server",
        module="postgresql_engine",
        fences="sql|postgres(?:ql)?|pgsql",
        package="psycopg",
        in_server=True,
    ),
}

if TYPE_CHECKING:
    EngineName = str
else:
    EngineName = Literal[tuple(ENGINES)]


def connection_parameters(connection: str) -> dict[str, str]:
    """libpq's parameters, with the host's address, which a worker cannot look up. Raises ValueError."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    if _PASSWORD.search(connection):
        raise ValueError("has a password, which every user of the machine could read; put it into PGPASSFILE")
    try:
        parameters = {key: str(value) for key, value in conninfo_to_dict(connection).items()}
    except psycopg.Error as error:
        raise ValueError(f"is not a connection string of libpq: {' '.join(str(error).split())}") from None
    for key in ("host", "user"):
        if not parameters.get(key):
            raise ValueError(f"has no {key}; give one, such as 'host=/var/run/postgresql user=scorer'")
    if "dbname" in parameters:
        raise ValueError("has a dbname, but the db_id names the database; leave it out")
    if not parameters["host"].startswith("/") and "hostaddr" not in parameters:
        try:
            [(*_, address), *_] = socket.getaddrinfo(parameters["host"], None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ValueError(f"has the host {parameters['host']}, which has no address: {error}") from None
        parameters["hostaddr"] = str(address[0])
    return parameters


def port_to_allow(parameters: dict[str, str]) -> int:
    """The TCP port of the server, 0 for a local socket."""
    return 0 if parameters["host"].startswith("/") else int(parameters.get("port", 5432))


def password_file() -> str:
    """libpq's password file, which need not exist."""
    return os.path.abspath(os.environ.get("PGPASSFILE") or os.path.expanduser("~/.pgpass"))
