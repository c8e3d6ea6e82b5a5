"""Scorer servers and their health: addresses from a list or a directory, and the choice of a server for a request."""

import itertools
import logging
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rl.common.errors import UserError
from rl.common.time_limits import LONGEST_PAUSE_S

logger = logging.getLogger(__name__)

REREAD_S = 5.0
FIRST_REST_S = 1.0
BUSY_WARNING_S = 60.0
START_HINT = "start one with `dph scorer --database-path DIR` (math: `dph scorer -c rl/scorer/math.yaml`)"

_HOST_AND_PORT = re.compile(r"^([\w.\-]+|\[[\da-fA-F:.]+\]):\d+$")


class NoServerKnown(UserError):
    """The directory of address files names no server now."""


@dataclass
class Server:
    """One scorer server as this process sees it."""

    address: str
    in_flight: int = 0  # responses
    last_lent: int = 0  # number of the loan
    failures_in_a_row: int = 0
    rests_until: float = 0.0  # after a failure
    busy_until: float = 0.0  # by its own answer
    probes: int = 0  # requests that wait for its heartbeat; meanwhile others go to another server

    @property
    def healthy(self) -> bool:
        """Whether its last answer was not a failure. A busy server is healthy."""
        return self.failures_in_a_row == 0


class ServerPool:
    """The scorer servers. A request goes to the least busy one that neither rests nor asked for a pause.

    A server that fails rests, longer each time, and is used meanwhile only if all of them rest.

    Args:
        source: an address or a comma-separated list of them (`host:port` or `http://host:port`), a sequence of
            addresses, or a directory whose files hold one address per line, which is re-read while the program runs.
    """

    def __init__(self, source: str | Sequence[str]):
        self._directory = None
        self._servers: dict[str, Server] = {}
        self._next_reading = self._next_busy_warning = 0.0
        self._loans = itertools.count(1)
        addresses = source.split(",") if isinstance(source, str) else list(source)
        if isinstance(source, str) and not any(_is_address(address) for address in addresses):
            self._directory = Path(source).expanduser()
            if self._directory.is_file():  # which no wait turns into a directory
                raise UserError(f"The scorer setting {source!r} is a file: give an address, or the file's directory.")
            if "/" not in source and not self._directory.is_dir():  # others may still be made
                raise UserError(
                    f"The scorer setting {source!r} is neither an address nor a directory of address files: give "
                    "http://host:port."
                )
        else:
            self._keep([_normalize(address) for address in addresses if address.strip()])
            if not self._servers:
                raise UserError(f"The scorer setting {source!r} names no server; {START_HINT} and give its address.")

    def servers(self) -> list[Server]:
        """The servers known now. Raises NoServerKnown."""
        if self._directory is not None and time.monotonic() >= self._next_reading:
            self._keep(_read_directory(self._directory))
            self._next_reading = time.monotonic() + REREAD_S
        return list(self._servers.values())

    def healthy(self) -> int:
        """How many of the servers known are healthy."""
        return sum(server.healthy for server in self._servers.values())

    def busy_for(self) -> float:
        """Seconds until a server that does not rest is no longer busy; 0 if one is free or all rest."""
        now = time.monotonic()
        waits = [server.busy_until - now for server in self._servers.values() if server.rests_until <= now]
        return max(min(waits, default=0.0), 0.0)

    @contextmanager
    def lend(self, responses: int) -> Iterator[Server]:
        """Lend the server for a request with this many responses, which count as its load meanwhile."""
        now = time.monotonic()

        def order(server: Server) -> tuple:
            ready = max(server.rests_until, server.busy_until, now)
            return server.rests_until > now or server.probes > 0, ready, server.in_flight, server.last_lent

        server = min(self.servers(), key=order)
        server.in_flight += responses
        server.last_lent = next(self._loans)
        try:
            yield server
        finally:
            server.in_flight -= responses

    def succeeded(self, server: Server) -> None:
        if not server.healthy:
            logger.warning("Scorer %s answers again.", server.address)
        server.failures_in_a_row = 0
        server.rests_until = 0.0

    def busy(self, server: Server, seconds: float) -> None:
        """The server answers, and asks for this pause."""
        self.succeeded(server)
        now = time.monotonic()
        server.busy_until = max(server.busy_until, now + seconds)
        if now >= self._next_busy_warning:
            logger.warning("Scorer %s is busy; its requests wait.", server.address)
            self._next_busy_warning = now + BUSY_WARNING_S

    def failed(self, server: Server, reason: str) -> None:
        now = time.monotonic()
        if now < server.rests_until:  # a request sent before it began to rest: the same failure
            return
        if server.healthy:
            logger.warning("Scorer %s failed (%s); it rests and is tried again.", server.address, reason)
        server.rests_until = now + min(FIRST_REST_S * 2 ** min(server.failures_in_a_row, 10), LONGEST_PAUSE_S)
        server.failures_in_a_row += 1

    def __str__(self) -> str:
        return str(self._directory) if self._directory is not None else ", ".join(self._servers)

    def _keep(self, addresses: list[str]) -> None:
        for gone in self._servers.keys() - set(addresses):
            logger.warning("Scorer %s is no longer named by %s.", gone, self._directory)
        self._servers = {address: self._servers.get(address, Server(address)) for address in addresses}


def _read_directory(directory: Path) -> list[str]:
    if not directory.is_dir():
        raise NoServerKnown(
            f"The scorer setting {str(directory)!r} is neither an address nor a directory of address files."
        )
    try:
        files = sorted(path for path in directory.iterdir() if path.is_file() and not path.name.startswith("."))
        lines = [line.strip() for path in files for line in path.read_text().splitlines()]
        addresses = [_normalize(line) for line in lines if line]
    except (OSError, UnicodeDecodeError, UserError) as error:  # also a file that is just being written or removed
        raise NoServerKnown(
            f"The directory of scorer addresses {directory} cannot be read: {error}; correct its files (one "
            "host:port per line)."
        ) from error
    if not addresses:
        raise NoServerKnown(f"The directory of scorer addresses {directory} holds no address (host:port in a file).")
    return addresses


def _is_address(text: str) -> bool:
    return "://" in text or _HOST_AND_PORT.match(text.strip()) is not None


def _normalize(address: str) -> str:
    text = address.strip().rstrip("/")
    parts = urlsplit(text if "://" in text else f"http://{text}")
    try:
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port
    except ValueError:  # a port outside 0..65535
        usable = False
    if not usable:
        raise UserError(f"The scorer address {address!r} is not of the form http://host:port.")
    return f"{parts.scheme}://{parts.netloc}{parts.path}"
