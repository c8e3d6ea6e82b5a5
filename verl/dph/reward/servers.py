"""Which scorer server takes the next request: addresses from a list or from a directory that is re-read, and health."""

import logging
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from verl.dph.errors import UserError

logger = logging.getLogger(__name__)

REREAD_S = 5.0
FIRST_REST_S = 1.0
LONGEST_REST_S = 30.0
START_HINT = "start one with `python rl/scorer/scorer_server_without_ray.py -c ./rl/scorer/sql.yaml`"

_HOST_AND_PORT = re.compile(r"^[\w.\-]+:\d+$")


class NoServerKnown(UserError):
    """The directory of address files is missing or empty."""


@dataclass
class Server:
    """One scorer server as this process sees it."""

    address: str
    in_flight: int = 0
    served: int = 0
    failures_in_a_row: int = 0
    rests_until: float = 0.0


class ServerPool:
    """The scorer servers, least busy healthy one first.

    A server that fails rests, longer each time, and is used meanwhile only when all of them rest.

    Args:
        source: an address or a comma-separated list of them (`host:port` or `http://host:port`), a sequence of
            addresses, or a directory whose files hold an address a line and which is re-read while the program runs.
    """

    def __init__(self, source: str | Sequence[str]):
        self._directory = None
        self._servers: dict[str, Server] = {}
        self._next_reading = 0.0
        addresses = source.split(",") if isinstance(source, str) else list(source)
        if isinstance(source, str) and not any(_is_address(address) for address in addresses):
            self._directory = Path(source).expanduser()
        else:
            self._keep([_normalize(address) for address in addresses if address.strip()])
            if not self._servers:
                raise UserError(f"The scorer setting {source!r} names no server; {START_HINT} and give its address.")

    def servers(self) -> list[Server]:
        """The servers known now.

        Raises:
            NoServerKnown: the directory is missing or holds no address.
        """
        if self._directory is not None and time.monotonic() >= self._next_reading:
            self._keep(_read_directory(self._directory))
            self._next_reading = time.monotonic() + REREAD_S
        return list(self._servers.values())

    @contextmanager
    def least_busy(self) -> Iterator[Server]:
        """Lends the server that the next request goes to."""
        now = time.monotonic()
        server = min(self.servers(), key=lambda s: (max(s.rests_until - now, 0.0), s.in_flight, s.served))
        server.in_flight += 1
        server.served += 1
        try:
            yield server
        finally:
            server.in_flight -= 1

    def succeeded(self, server: Server) -> None:
        if server.failures_in_a_row:
            logger.warning("Scorer %s answers again.", server.address)
        server.failures_in_a_row = 0
        server.rests_until = 0.0

    def failed(self, server: Server, reason: str) -> None:
        if not server.failures_in_a_row:
            logger.warning("Scorer %s failed (%s); it rests and is tried again.", server.address, reason)
        rest = min(FIRST_REST_S * 2**server.failures_in_a_row, LONGEST_REST_S)
        server.failures_in_a_row += 1
        server.rests_until = time.monotonic() + rest

    def __str__(self) -> str:
        return str(self._directory) if self._directory is not None else ", ".join(self._servers)

    def _keep(self, addresses: list[str]) -> None:
        self._servers = {address: self._servers.get(address, Server(address)) for address in addresses}


def _read_directory(directory: Path) -> list[str]:
    if not directory.is_dir():
        raise NoServerKnown(
            f"The scorer setting {str(directory)!r} is neither an address nor a directory of address files; "
            f"{START_HINT} and give its address (host:port)."
        )
    files = sorted(path for path in directory.iterdir() if path.is_file() and not path.name.startswith("."))
    lines = [line.strip() for path in files for line in path.read_text().splitlines()]
    addresses = [_normalize(line) for line in lines if line]
    if not addresses:
        raise NoServerKnown(
            f"The directory of scorer addresses {directory} holds no address; {START_HINT} and write its address "
            "(host:port) to a file there."
        )
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
