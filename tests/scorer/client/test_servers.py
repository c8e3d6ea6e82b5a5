"""Which servers the client uses: lists, directories that change while it works, and servers that come and go."""

import asyncio

import pytest

from rl.common.errors import UserError
from rl.scorer.client import scorer_client as client_module
from rl.scorer.client.servers import ServerPool


@pytest.fixture
def reread_at_once(monkeypatch):
    """A directory of addresses is read at every request."""
    monkeypatch.setattr("rl.scorer.client.servers.REREAD_S", 0.0)


def test_what_names_servers(tmp_path):
    pool = ServerPool(" localhost:5001/, http://10.0.0.2:80 ,[::1]:5001")
    addresses = [server.address for server in pool.servers()]
    assert addresses == ["http://localhost:5001", "http://10.0.0.2:80", "http://[::1]:5001"]
    assert len(ServerPool("[fe80::1]:5001").servers()) == 1
    with pytest.raises(UserError, match="'foo' is neither an address nor a directory of address files: give http://"):
        ServerPool("foo")
    for address in ("http://host", "ftp://host:1", "http://host:99999"):
        with pytest.raises(UserError, match="not of the form http://host:port"):
            ServerPool(address)
    (tmp_path / "address").write_text("localhost:5001\n")
    with pytest.raises(UserError, match="address' is a file: give an address, or the file's directory."):
        ServerPool(str(tmp_path / "address"))


def test_wait_until_healthy_waits_for_a_server_that_starts_late(fake, client_of, tmp_path, monkeypatch, reread_at_once):
    monkeypatch.setattr(client_module, "HEARTBEAT_INTERVAL_S", 0.02)

    async def scenario():
        async with client_of(str(tmp_path)) as client, fake(fake.right) as server:
            waiting = asyncio.create_task(client.wait_until_healthy(timeout_s=10))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            (tmp_path / "node1").write_text(server.address)
            await waiting

    asyncio.run(scenario())


def test_servers_come_and_go_under_load(fake, client_of, tmp_path, reread_at_once):
    """The first one is taken from the directory while it has requests, and another one is put there."""

    async def pause(request, body):
        await asyncio.sleep(0.01)
        return fake.by_parity(request, body)

    async def scenario():
        async with fake(pause) as one, fake(pause) as two:
            (tmp_path / "node1").write_text(one.address + "\n")
            async with client_of(str(tmp_path), max_in_flight=2) as client:
                calls = [asyncio.create_task(client.score(str(i), fake.question(i))) for i in range(640)]
                await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
                (tmp_path / "node2").write_text(two.address.removeprefix("http://"))
                (tmp_path / "node1").unlink()
                had = len(one.requests)
                scores = await asyncio.gather(*calls)
            return scores, len(one.requests) - had, len(one.requests) + len(two.requests), len(two.requests)

    scores, afterwards, requests, of_two = asyncio.run(scenario())
    assert [score.acc for score in scores] == [1, 0] * 320
    assert requests == 20 and of_two >= 10
    assert afterwards <= 2  # what was on its way


def test_a_directory_that_is_being_rewritten_is_read_again(fake, client_of, tmp_path, reread_at_once):
    """An address file that is half written, then empty, then whole: no request is lost."""

    async def scenario():
        async with fake(fake.right) as server:
            file = tmp_path / "node1"
            file.write_text(server.address[:-3] + "x")
            async with client_of(str(tmp_path), retries=8, first_backoff_s=0.05) as client:
                call = asyncio.create_task(client.score("text", fake.QUESTION))
                await asyncio.sleep(0.05)
                file.write_bytes(b"\xff\xfe\xff")
                await asyncio.sleep(0.05)
                file.write_text("")
                await asyncio.sleep(0.05)
                file.write_text(server.address)
                return await call

    score = asyncio.run(scenario())
    assert score.acc == 1 and score.effort.retries > 0
