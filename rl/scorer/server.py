"""The scorer server as a program: options.py calls `run`.

It prints one line with its address once it serves; from then on GET /heartbeat answers. After SIGTERM or SIGINT it
finishes the requests in progress and ends every worker process.
"""

import argparse
import asyncio
import ipaddress
import logging
import resource
import signal
import socket
import sys
import tempfile
from contextlib import suppress
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
_LOG_FILE_BYTES, _OLD_LOG_FILES = 100_000_000, 3


def run(options: argparse.Namespace) -> int:
    """Run the server until it is told to end.

    Returns the exit code: 0, or 1 if the worker processes do not start. A wrong setting exits with code 2.
    """
    with user_errors_exit():
        listening = {"address": options.address, "port": options.port}
        sql, every = {"database_path": options.database_path}, {"num_instances": options.workers}
        settings = load_settings(options.config, listening, sql, every)
        check_scorers(settings.Scorers.items())
        server = settings.ScorerServer
        if options.address_file is not None:
            _check_address_file(options.address_file)
        try:
            _log_to(server.log_file)
        except (OSError, ValueError) as error:
            raise UserError(f"ScorerServer.log_file cannot be opened: {error}; give another path.") from None
        listener = _listen(server.address, server.port)
    with listener:
        return _serve(settings, listener, options.address_file)


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


def _serve(settings: Settings, listener: socket.socket, address_file: Path | None) -> int:
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

    app = create_app(settings, ready, shut_down)
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


def _log_to(path: Path | None) -> None:
    """Send every record to the file; without one, warnings and worse to stderr."""
    handler = (
        logging.StreamHandler()
        if path is None
        else RotatingFileHandler(path, maxBytes=_LOG_FILE_BYTES, backupCount=_OLD_LOG_FILES, encoding="utf-8")
    )
    level = logging.WARNING if path is None else logging.INFO
    logging.basicConfig(level=level, handlers=[handler], format="%(asctime)s %(levelname)s %(name)s: %(message)s")
