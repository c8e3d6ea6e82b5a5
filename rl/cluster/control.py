"""How the nodes know of each other: each one keeps a connection to the head, a JSON object a line.

A node says {"rank": ..., "agreed": ...}, later {"scorer": address} or {"failed": sentence}; the head says {"refused":
sentence} or {"ray": address, "token": ...} when its Ray runs, {"ready": true} when all nodes are, and at last {"end":
exit code}. A connection that breaks says that the other side is gone. No shared folder is needed, and nothing stays
behind for the next run.
"""

import asyncio
import json
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from rl.cluster.errors import ClusterError
from rl.cluster.programs import say
from rl.cluster.settings import HEAD_RANK, Deadline, Settings

RETRY_S = 1.0
REPORT_S = 30.0
LAST_WORDS_S = 5.0
# A machine that vanishes without a word is noticed after 60 s: the first probe after 30 s, and 6 more.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 6))
# What a connection raises when it ends or brings no JSON.
_BROKEN = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError)


class Connection:
    """One side of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader, self._writer = reader, writer
        line = writer.get_extra_info("socket")
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            line.setsockopt(socket.IPPROTO_TCP, option, value)

    @property
    def here(self) -> str:
        """The address of this side."""
        return self._writer.get_extra_info("sockname")[0]

    @property
    def there(self) -> str:
        """The address of the other side."""
        return self._writer.get_extra_info("peername")[0]

    async def send(self, **message) -> None:
        """Sends; a connection that is broken says so to the one who reads."""
        with suppress(OSError):
            self._writer.write(json.dumps(message).encode() + b"\n")
            await self._writer.drain()

    async def receive(self) -> dict | None:
        """The next message, None when the other side is gone."""
        try:
            message = json.loads(await self._reader.readuntil())
        except _BROKEN:
            return None
        return message if isinstance(message, dict) else None

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError, TimeoutError):
            await asyncio.wait_for(self._writer.wait_closed(), LAST_WORDS_S)


async def connect(settings: Settings, deadline: Deadline) -> Connection:
    """A node's connection to the head, tried until the head is there.

    Raises:
        ClusterError: it is not within the time limit, or its name is unknown.
    """
    source = (settings.node_address, 0) if settings.node_address else None
    problem, asked = "", False
    while deadline.left > 0:
        opening = asyncio.open_connection(settings.head, settings.cluster_port, local_addr=source)
        try:
            connection = Connection(*await asyncio.wait_for(opening, deadline.left))
        except (OSError, TimeoutError) as error:
            if not asked:
                say(f"node {settings.rank} waits for the head at {settings.head} port {settings.cluster_port}")
            problem, asked = str(error) or "no answer", True
            await asyncio.sleep(min(RETRY_S, deadline.left))
        else:
            await connection.send(rank=settings.rank, agreed=settings.agreed)
            return connection
    raise ClusterError(
        f"Node {settings.rank} did not reach the head at {settings.head} port {settings.cluster_port} within "
        f"{deadline.seconds:g} s ({problem}): start the same script there with NODE_RANK=0, or mend MASTER_ADDR."
    )


@dataclass
class Node:
    """A node as the head knows it; scorer is its server's address once that serves."""

    rank: int
    connection: Connection
    scorer: str | None = None


class Register:
    """The head's side: who is there, to be used in `async with`.

    Args:
        lost: told of a node's rank and a sentence when the node fails or its connection breaks.
    """

    def __init__(self, settings: Settings, lost: Callable[[int, str], None]):
        self._settings, self._lost = settings, lost
        self._nodes: dict[int, Node] = {}
        self._changed = asyncio.Condition()
        self._told: list[dict] = []
        self._ended = False

    async def __aenter__(self) -> "Register":
        host = self._settings.node_address or "0.0.0.0"
        try:
            self._server = await asyncio.start_server(self._serve, host, self._settings.cluster_port)
        except OSError as error:
            raise ClusterError(
                f"The head cannot listen on {host} port {self._settings.cluster_port} ({os.strerror(error.errno)}): "
                "end what holds the port, or give all nodes another CLUSTER_PORT."
            ) from None
        return self

    async def __aexit__(self, *exception) -> None:
        self._server.close()

    async def all_here(self, deadline: Deadline) -> str:
        """Waits for every node. Returns the head's address as they see it.

        Raises:
            ClusterError: some are missing when the time is over.
        """
        ranks = set(range(self._settings.nodes)) - {HEAD_RANK}
        await self._wait(lambda: ranks - self._nodes.keys(), "join", deadline)
        return self._settings.node_address or self._nodes[min(ranks)].connection.here

    async def all_score(self, deadline: Deadline) -> list[str]:
        """Waits until every node has registered its scorer. Returns their addresses by rank.

        Raises:
            ClusterError: some have not when the time is over.
        """
        nodes = self._nodes
        await self._wait(lambda: {rank for rank in nodes if nodes[rank].scorer is None}, "start a scorer", deadline)
        return [nodes[rank].scorer for rank in sorted(nodes)]

    @property
    def has_told(self) -> bool:
        return bool(self._told)

    async def tell(self, **message) -> None:
        """Every node hears it, also one that comes later."""
        self._told.append(message)
        for node in list(self._nodes.values()):
            await node.connection.send(**message)

    async def end(self, exit_code: int) -> None:
        """Tells every node to end, with the exit code of the command."""
        self._ended = True
        for node in list(self._nodes.values()):
            await node.connection.send(end=exit_code)
            await node.connection.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        hello = await connection.receive() or {}
        if refusal := self._refusal(hello):
            await connection.send(refused=refusal)
            await connection.close()
            return
        node = Node(hello["rank"], connection)
        say(f"node {node.rank} at {connection.there} has joined")
        async with self._changed:
            self._nodes[node.rank] = node
            self._changed.notify_all()
        for message in self._told:
            await connection.send(**message)
        reason = "its connection broke"
        while (message := await connection.receive()) is not None:
            if "failed" in message:
                reason = str(message["failed"])
                break
            async with self._changed:
                node.scorer = message.get("scorer")
                self._changed.notify_all()
        async with self._changed:
            del self._nodes[node.rank]
            self._changed.notify_all()
        if not self._ended:
            self._lost(node.rank, reason)

    def _refusal(self, hello: dict) -> str | None:
        """Why a node cannot be one of ours, None when it can."""
        rank, theirs, ours = hello.get("rank"), hello.get("agreed"), self._settings.agreed
        if not isinstance(rank, int) or not isinstance(theirs, dict):
            return "The head understands no node of another version: use the same checkout on all nodes."
        for name in (name for name in ours if theirs.get(name) != ours[name]):
            return f"The head has {name}={ours[name]} and node {rank} {theirs.get(name)}: set the same on all nodes."
        if not HEAD_RANK < rank < self._settings.nodes:
            return f"NODE_RANK={rank} is not one of 1 to {self._settings.nodes - 1}, which the head waits for."
        if rank in self._nodes:
            return f"There are two nodes with NODE_RANK={rank}: give each its own."
        return None

    async def _wait(self, missing: Callable[[], set[int]], what: str, deadline: Deadline) -> None:
        """Until missing() is empty, which it can become when something changes."""
        async with self._changed:
            while ranks := missing():
                named = f"node{'s' if len(ranks) > 1 else ''} {', '.join(map(str, sorted(ranks)))}"
                if deadline.left == 0:
                    raise ClusterError(
                        f"After {deadline.seconds:g} s the head still waits for {named} of "
                        f"{self._settings.nodes} to {what}: start the same script on every node with its own NODE_RANK "
                        "and the same MASTER_ADDR, look at the output of those nodes, or raise CLUSTER_WAIT_S."
                    )
                say(f"the head waits for {named} to {what}, {deadline.left:.0f} s more")
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), min(REPORT_S, deadline.left))
