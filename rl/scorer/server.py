"""The scorer server as a program: options.py calls `run`.

It prints one line with its address once it serves; from then on GET /heartbeat answers. After SIGTERM or SIGINT it
finishes the requests in progress and ends every worker process.
"""

import argparse
import ipaddress
import logging
import resource
import signal
import socket
import sys
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import FrameType

import uvicorn

from rl.common.atomic_write import write_text
from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.scorer.app import create_app
from rl.scorer.checks import check_scorers
from rl.scorer.config import Settings
from rl.scorer.config_file import load_settings

_BACKLOG = 2048
_OPEN_FILES = 65_536
# Longer than the pause between two training steps' requests, so that clients keep their connections.
_KEEP_ALIVE_SECONDS = 300
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
        if (file := options.address_file) is not None and (file.is_dir() or not file.parent.is_dir()):
            raise UserError(f"--address-file {file} cannot be written: give a file in a folder that exists.")
        try:
            _log_to(server.log_file)
        except (OSError, ValueError) as error:
            raise UserError(f"ScorerServer.log_file cannot be opened: {error}; give another path.") from None
        listener = _listen(server.address, server.port)
    with listener:
        return _serve(settings, listener, options.address_file)


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise UserError(
            f"The server cannot listen on {address} port {port}: {error}; give another --address or --port."
        ) from None


def _allow_open_files() -> None:
    """Raise the limit of open files as far as the system allows: a connection takes one, a worker two."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # RLIM_INFINITY is -1 in Python.
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if 0 <= soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


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

    _allow_open_files()
    app = create_app(settings, ready, shut_down)
    config = uvicorn.Config(
        app,
        backlog=_BACKLOG,
        log_config=None,
        access_log=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=settings.ScorerServer.shutdown_seconds,
    )
    # Before uvicorn has its own handlers, and after.
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


def _log_to(path: Path | None) -> None:
    """Send every record to the file; without one, warnings and worse to stderr."""
    handler = (
        logging.StreamHandler()
        if path is None
        else RotatingFileHandler(path, maxBytes=_LOG_FILE_BYTES, backupCount=_OLD_LOG_FILES, encoding="utf-8")
    )
    level = logging.WARNING if path is None else logging.INFO
    logging.basicConfig(level=level, handlers=[handler], format="%(asctime)s %(levelname)s %(name)s: %(message)s")
