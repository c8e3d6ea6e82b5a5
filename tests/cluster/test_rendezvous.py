"""The kernel gives the port of a process group to no connection, as it did once in a run of these tests."""

import socket
from types import SimpleNamespace

from rl.cluster import rendezvous


def test_a_port_is_free_and_below_those_of_connections():
    first = int(rendezvous.LOCAL_PORTS.read_text().split()[0])
    ports = [rendezvous.free_port() for _ in range(50)]
    assert all(10_000 <= port < first for port in ports) and len(set(ports)) > 45
    with socket.create_server(("", ports[0])) as listener, socket.create_connection(listener.getsockname()) as client:
        assert client.getsockname()[1] >= first


def test_a_port_in_use_is_not_returned(monkeypatch):
    with socket.create_server(("", rendezvous.free_port())) as listener:
        taken = listener.getsockname()[1]
        draws = iter([taken, taken + 1, taken + 2, taken + 3])
        drawn = SimpleNamespace(randrange=lambda *_: next(draws))
        monkeypatch.setattr(rendezvous.random, "SystemRandom", lambda: drawn)
        assert taken < rendezvous.free_port() <= taken + 3
