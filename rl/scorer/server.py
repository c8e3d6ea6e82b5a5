"""The scorer server as a program: scorer_server_without_ray.py and `python -m rl.scorer` call `main`.

Prints one line with the address once it serves; GET /heartbeat answers from then on. SIGTERM or SIGINT finishes the
requests under way and ends every worker process.
"""

import hashlib
import ipaddress
import resource
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

import uvicorn

from rl.common.atomic_write import write_text
from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.scorer.app import create_app
from rl.scorer.config import Settings, TaskSettings, load_settings
from rl.scorer.engines import check_engines
from rl.scorer.http_protocol import SPARE_CONNECTIONS, protocol_with_deadline
from rl.scorer.logs import LogFile, set_up
from rl.scorer.options import parser
from rl.scorer.sandbox.support import check_sandbox
from rl.scorer.task.check import check_task

_BACKLOG = 2048
# Longer than a training step's pause between two batches of requests, so that clients keep their connections.
_KEEP_ALIVE_SECONDS = 300
# Open files beside those of served connections. A worker's: its socket and its pidfd.
_OTHER_FILES = SPARE_CONNECTIONS + 100
_FILES_PER_WORKER = 2


def main(arguments: list[str] | None = None) -> int:
    """Run the server until it is told to end.

    Returns the exit code: 0, or 1 if the worker processes do not start. A wrong setting exits with code 2.
    """
    options = parser().parse_args(arguments)
    with user_errors_exit():
        listening = {"address": options.address, "port": options.port}
        sql, every = {"database_path": options.database_path}, {"num_instances": options.workers}
        settings = load_settings(options.config, listening, sql, every)
        config_sha256 = hashlib.sha256(options.config.read_bytes()).hexdigest()
        check_sandbox(settings.Scorers.items())
        check_engines(settings.Scorers.items())
        for scorer in settings.Scorers.values():
            if isinstance(scorer, TaskSettings):
                check_task(scorer)
        server = settings.ScorerServer
        if options.address_file is not None and not options.address_file.parent.is_dir():
            raise UserError(f"--address-file {options.address_file} lies in no directory; create it or give another.")
        try:
            log = set_up(server.log_file, server.log_file_bytes)
        except OSError as error:
            raise UserError(f"ScorerServer.log_file cannot be opened: {error}; give another path.") from None
        listener = _listen(server.address, server.port)
    with listener:
        return _serve(settings, config_sha256, listener, options.address_file, log)


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise UserError(
            f"The server cannot listen on {address} port {port}: {error}; give another --address or --port."
        ) from None


def _max_connections(settings: Settings) -> int:
    """The setting, or less where the system does not let the server have as many open files, which are raised first."""
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
    settings: Settings, config_sha256: str, listener: socket.socket, address_file: Path | None, log: LogFile | None
) -> int:
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        # It listens everywhere: others reach it by its host's name.
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
        http=protocol_with_deadline(settings.ScorerServer.request_seconds),
        backlog=_BACKLOG,
        # uvicorn counts the connection that it asks about.
        limit_concurrency=_max_connections(settings) + 1,
        log_config=None,
        access_log=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=settings.ScorerServer.shutdown_seconds,
    )
    # uvicorn ends gracefully on either signal and then raises it once more, for the handlers that it found.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _exit_quietly)
    server = uvicorn.Server(config)
    try:
        with suppress(SystemExit):  # of uvicorn, if the start failed, and of the signals' handler
            server.run(sockets=[listener])
    finally:
        if address_file is not None:
            address_file.unlink(missing_ok=True)
    if app.state.failure is not None:
        sys.stderr.write(f"Error: The workers do not start: {app.state.failure}; what they wrote is above.\n")
    return 0 if server.started else 1


def _exit_quietly(*_: object) -> None:
    raise SystemExit(0)
