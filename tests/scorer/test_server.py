"""Clients that send slowly, too much or nothing, too many of them, and odd headers."""

import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from tests.scorer.conftest import Scorer


def connect(scorer: Scorer) -> socket.socket:
    return socket.create_connection((scorer.client.base_url.host, scorer.client.base_url.port), timeout=20)


def everything(connection: socket.socket) -> bytes:
    """What the server sends until it closes the connection."""
    received = b""
    while chunk := connection.recv(65_536):
        received += chunk
    return received


@pytest.fixture(scope="module")
def hurried(start_scorer: Callable[..., Scorer]) -> Iterator[Scorer]:
    """Half a second for a request; four connections."""
    yield start_scorer(server={"request_seconds": 0.5, "max_connections": 4}, num_instances=1)


@pytest.mark.parametrize("sent", [b"", b"PUT /api HT", b"PUT /api HTTP/1.1\r\nHost: x\r\nA: "])
def test_a_request_that_does_not_come_is_not_waited_for(hurried: Scorer, sent: bytes) -> None:
    with connect(hurried) as connection:
        connection.sendall(sent)
        assert everything(connection) == b""


def test_a_header_that_trickles_is_not_waited_for(hurried: Scorer) -> None:
    with connect(hurried) as connection, pytest.raises(OSError):
        connection.sendall(b"PUT /api HTTP/1.1\r\n")
        for _ in range(200):
            connection.sendall(b"A: b\r\n")
            time.sleep(0.05)


def test_a_body_that_does_not_come_is_said_so(hurried: Scorer) -> None:
    with connect(hurried) as connection:
        connection.sendall(b"PUT /api HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        head, _, body = everything(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ") and "request_seconds" in json.loads(body)["error"]


def test_more_connections_than_the_limit_are_told_to_come_back(hurried: Scorer) -> None:
    idle = [connect(hurried) for _ in range(4)]
    try:
        with connect(hurried) as connection:
            connection.sendall(b"GET /heartbeat HTTP/1.1\r\nHost: x\r\n\r\n")
            assert everything(connection).startswith(b"HTTP/1.1 503 ")
    finally:
        for connection in idle:
            connection.close()
    deadline = time.monotonic() + 10
    while hurried.client.get("/heartbeat").status_code != 200:
        assert time.monotonic() < deadline


def test_a_body_above_the_limit_is_said_so_to_a_client_that_reads_late(scorer: Scorer) -> None:
    """urllib sends everything before it reads: it must not meet a closed connection."""
    request = urllib.request.Request(f"{scorer.url}/api", data=b"x" * 20_000_000, method="PUT")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
    assert refused.value.code == 413 and "max_body_bytes" in json.load(refused.value)["error"]


@pytest.mark.parametrize("forwarded", ["garbage", "192.0.2.1", "127.0.0.1, garbage"])
def test_no_forwarded_address_breaks_shutdown(scorer: Scorer, forwarded: str) -> None:
    reply = scorer.client.put("/shutdown", headers={"X-Forwarded-For": forwarded})
    assert reply.status_code == 403 and "own host" in reply.json()["error"]
    assert scorer.client.get("/heartbeat").status_code == 200
