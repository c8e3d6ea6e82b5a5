"""The scorer server as a program: options.py calls `run`.

It prints one line with its address once it serves; from then on GET /heartbeat answers. After SIGTERM or SIGINT it
finishes the requests in progress and ends every worker process.
"""

import argparse
import asyncio
import hashlib
import ipaddress
import json
import logging
import resource
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import FrameType

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rl.common.atomic_write import write_text
from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.scorer.app import create_app
from rl.scorer.checks import check_scorers
from rl.scorer.config import Settings
from rl.scorer.config_file import load_settings

_BACKLOG = 2048
# Longer than the pause between two training steps' requests, so that clients keep their connections.
_KEEP_ALIVE_SECONDS = 300
# Connections beyond max_connections that get a 503; any further ones are closed at once.
_SPARE_CONNECTIONS = 100
# Open files besides those of served connections. A worker has a socket and a pidfd.
_OTHER_FILES = _SPARE_CONNECTIONS + 100
_FILES_PER_WORKER = 2
_OLD_LOG_FILES = 3


def run(options: argparse.Namespace) -> int:
    """Run the server until it is told to end.

    Returns the exit code: 0, or 1 if the worker processes do not start. A wrong setting exits with code 2.
    """
    with user_errors_exit():
        listening = {"address": options.address, "port": options.port}
        sql, every = {"database_path": options.database_path}, {"num_instances": options.workers}
        settings = load_settings(options.config, listening, sql, every)
        config_sha256 = hashlib.sha256(options.config.read_bytes()).hexdigest()
        check_scorers(settings.Scorers.items())
        server = settings.ScorerServer
        if options.address_file is not None:
            _check_address_file(options.address_file)
        try:
            log = _log_to(server.log_file, server.log_file_bytes)
        except (OSError, ValueError) as error:
            raise UserError(f"ScorerServer.log_file cannot be opened: {error}; give another path.") from None
        listener = _listen(server.address, server.port)
    with listener:
        return _serve(settings, config_sha256, listener, options.address_file, log)


def _check_address_file(path: Path) -> None:
    if not path.parent.is_dir():
        raise UserError(f"The folder of --address-file {path} does not exist: create it.")
    try:
        if path.is_dir():
            raise UserError(f"--address-file {path} is a folder: give a file in it.")
        tempfile.NamedTemporaryFile(prefix=f".{path.name}.", dir=path.parent).close()
    except (OSError, ValueError) as error:
        raise UserError(f"--address-file {path} cannot be written: {error}; give another path.") from None


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise UserError(
            f"The server cannot listen on {address} port {port}: {error}; give another --address or --port."
        ) from None


def _max_connections(settings: Settings) -> int:
    """The setting, or fewer if the system does not allow that many open files, after raising their limit."""
    wanted = settings.ScorerServer.max_connections
    workers = sum(scorer.processes + scorer.slow_processes for scorer in settings.Scorers.values())
    others = _OTHER_FILES + _FILES_PER_WORKER * workers
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    files = max(soft, wanted + others if hard == resource.RLIM_INFINITY else min(wanted + others, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return max(min(wanted, files - others), 1)


def _serve(
    settings: Settings, config_sha256: str, listener: socket.socket, address_file: Path | None, log: "_LogFile | None"
) -> int:
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        # It listens on all addresses: others reach it by its host's name.
        host = socket.gethostname()
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def ready() -> None:
        if address_file is not None:
            write_text(address_file, address)
        sys.stdout.write(f"The scorer listens on http://{address}\n")
        sys.stdout.flush()

    def shut_down() -> None:
        server.should_exit = True

    app = create_app(settings, ready, shut_down, config_sha256)
    if log is not None:
        log.on_failure = app.state.metrics.log_failures.inc
    config = uvicorn.Config(
        app,
        http=_protocol_with_deadline(settings.ScorerServer.request_seconds),
        backlog=_BACKLOG,
        # uvicorn counts the connection that it asks about.
        limit_concurrency=_max_connections(settings) + 1,
        log_config=None,
        access_log=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=settings.ScorerServer.shutdown_seconds,
    )
    # Until uvicorn has its own handlers.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _exit_quietly)
    server = _Server(config)
    try:
        with suppress(SystemExit):  # from uvicorn, if the start failed, and from _exit_quietly
            server.run(sockets=[listener])
    finally:
        # Another server may have been started with the same file.
        if address_file is not None and address_file.is_file() and address_file.read_bytes() == address.encode():
            address_file.unlink(missing_ok=True)
    if app.state.failure is not None:
        sys.stderr.write(f"Error: The workers do not start: {app.state.failure}; what they wrote is above.\n")
    return 0 if server.started else 1


class _Server(uvicorn.Server):
    """uvicorn's server, which ends gracefully however many signals come: a launcher may pass on a Ctrl-C."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.should_exit = True


def _exit_quietly(*_: object) -> None:
    raise SystemExit(0)


def _protocol_with_deadline(seconds: float) -> type[HttpToolsProtocol]:
    """uvicorn's HTTP/1.1 protocol, which also closes a connection whose header is not complete within `seconds`.

    The time runs from the header's first byte, and from the start of a new connection. Between requests uvicorn's
    timeout_keep_alive applies; the application limits the time of a body.
    """

    class Protocol(HttpToolsProtocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._set_deadline()
            if self.limit_concurrency and len(self.connections) > self.limit_concurrency + _SPARE_CONNECTIONS:
                transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            self._unset_deadline()
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            self._set_deadline()
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._unset_deadline()
            super().on_headers_complete()

        def _set_deadline(self) -> None:
            self._unset_deadline()
            self._deadline = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

        def _unset_deadline(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()

    return Protocol


class _JsonLines(logging.Formatter):
    """{"time", "level", "logger", "message", ...}; `extra={"fields": {...}}` of a record is merged in."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


class _LogFile(RotatingFileHandler):
    """Appends to `path` and keeps three older files. A failure, such as a full disk, is counted and does no harm."""

    def __init__(self, path: Path, max_bytes: int):
        super().__init__(path, maxBytes=max_bytes, backupCount=_OLD_LOG_FILES, encoding="utf-8")
        self.on_failure: Callable[[], None] = lambda: None
        self._reported = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name that logging looks for
        self.on_failure()
        if not self._reported:
            self._reported = True
            reason = sys.exc_info()[1]
            sys.stderr.write(f"The log file {self.baseFilename} cannot be written: {reason}; the server goes on.\n")


def _log_to(path: Path | None, max_bytes: int) -> _LogFile | None:
    """Send every record to the file; without one, warnings and worse to stderr. Returns the file's handler."""
    file = None if path is None else _LogFile(path, max_bytes)
    handler = file or logging.StreamHandler()
    handler.setFormatter(_JsonLines())
    logging.basicConfig(level=logging.WARNING if path is None else logging.INFO, handlers=[handler])
    return file
