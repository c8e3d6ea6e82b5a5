"""What the server must know of engines other than SQLite before their workers start."""

import os
import re
import socket
from collections.abc import Iterable
from importlib.util import find_spec

from rl.common.errors import UserError
from rl.scorer.config import ScorerSettings, SqlSettings

_PACKAGES = {"duckdb": "duckdb", "postgresql": "psycopg"}
_PASSWORD = re.compile(r"\bpassword\s*=|://[^/@]*:[^/@]*@")


def check_engines(scorers: Iterable[tuple[str, ScorerSettings]]) -> None:
    """Raises UserError if a scorer (name, settings) has an engine without its package, or no usable connection."""
    for name, settings in scorers:
        if not isinstance(settings, SqlSettings) or settings.engine == "sqlite":
            continue
        package = _PACKAGES[settings.engine]
        if find_spec(package) is None:
            raise UserError(
                f"Scorers.{name} has the engine {settings.engine}, which needs the package {package}; install it: "
                "pip install '.[engines]'."
            )
        if settings.engine == "postgresql":
            try:
                connection_parameters(settings)
            except ValueError as error:
                raise UserError(f"Scorers.{name}.connection {error}.") from None


def connection_parameters(settings: SqlSettings) -> dict[str, str]:
    """libpq's parameters, with the address of the host: a worker cannot ask for it. ValueError says what is wrong."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    text = settings.connection or ""
    if _PASSWORD.search(text):
        raise ValueError("has a password, which every user of the machine could read; put it into PGPASSFILE")
    try:
        parameters = {key: str(value) for key, value in conninfo_to_dict(text).items()}
    except psycopg.Error as error:
        raise ValueError(f"is no connection string of libpq: {' '.join(str(error).split())}") from None
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
    """libpq's; it need not exist."""
    return os.path.abspath(os.environ.get("PGPASSFILE") or os.path.expanduser("~/.pgpass"))
