"""A client that batches requests to an hf server.

Two Ray calls to the load balancer and one to the server for every sample cost a step of the demo (256 samples, two
cores) about as much as the sampling itself. This client makes them once per burst and server.

A burst is what arrives within a short window or, if the caller knows the number of requests beforehand, a `Burst`,
which the server answers as one batch, ordered by content. The last digits of log-probs depend on the batch, so a
`Burst` makes the numbers of a run reproducible.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import uuid4

from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.replica import TokenOutput

# Requests made within this time travel together.
WINDOW_SECONDS = 0.005

Item = tuple[tuple[list[int], dict[str, Any], str], asyncio.Future]  # (prompt_ids, sampling_params, request_id), output

_place: ContextVar[list["Burst"] | None] = ContextVar("_place", default=None)  # of a task: its burst, until it joins


class Burst:
    """Requests of a known number of tasks, sent once all are there. See `BurstClient.burst`."""

    def __init__(self, client: "BurstClient", size: int):
        self._client, self._missing = client, size
        self._items: list[Item] = []

    @contextmanager
    def member(self) -> Iterator[None]:
        """A block in a separate task whose first request belongs to the burst; it may end without a request."""
        place = [self]
        token = _place.set(place)
        try:
            yield
        finally:
            _place.reset(token)
            if place:
                self.join([])

    def join(self, items: list[Item]) -> None:
        """A task's request, or none."""
        self._items += items
        self._missing -= 1
        if self._missing == 0 and self._items:
            self._client._start(self._client._send_burst, self._items, whole=True)


class BurstClient(LLMServerClient):
    """verl's LLMServerClient for `HFServer`, whose `generate_many` it calls. Belongs to one event loop."""

    def __init__(self, client: LLMServerClient):
        super().__init__(client.config, client._load_balancer)
        self._waiting: list[Item] = []
        self._sending: set[asyncio.Task] = set()
        self._closed = False

    def burst(self, size: int) -> Burst:
        """A burst of `size` tasks; each does its work within `Burst.member`."""
        return Burst(self, size)

    async def close(self) -> None:
        """Cancel the requests under way while Ray runs: a later call would start another Ray."""
        self._closed = True  # a timer of generate may still be running
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **multimodal: Any
    ) -> TokenOutput:
        """As LLMServerClient.generate, for text only.

        Raises:
            ValueError: for images and the like.
            Exception: what the server raised for this request.
        """
        if given := sorted(name for name, value in multimodal.items() if value):
            raise ValueError(f"request {request_id}: the hf rollout takes text only, not {given}")
        loop = asyncio.get_running_loop()
        output = loop.create_future()
        item = (list(prompt_ids), dict(sampling_params), request_id), output
        if place := _place.get():
            place.pop().join([item])
        else:
            if not self._waiting:
                loop.call_later(WINDOW_SECONDS, self._send_waiting)
            self._waiting.append(item)
        return await output

    def _send_waiting(self) -> None:
        burst, self._waiting = self._waiting, []
        self._start(self._send_burst, burst, whole=False)

    def _start(self, send: Callable[[list[Item], bool], Coroutine], items: list[Item], whole: bool) -> None:
        """Run `send` as a task; what it raises is raised to every caller that has no output by then."""
        if self._closed:
            for _, output in items:
                output.cancel()
            return

        async def run() -> None:
            try:
                await send(items, whole)
            except Exception as error:
                for _, output in items:
                    if not output.done():
                        output.set_exception(error)

        task = asyncio.get_running_loop().create_task(run())
        self._sending.add(task)  # the loop itself holds tasks weakly
        task.add_done_callback(self._sending.discard)

    async def _send_burst(self, burst: list[Item], whole: bool) -> None:
        """Split the burst equally over all servers; requests of one prompt stay together, for its cache."""
        burst.sort(key=_content)
        servers = len(await self._load_balancer.get_all_servers.remote())
        size = math.ceil(len(burst) / max(servers, 1))
        for start in range(0, len(burst), size):
            self._start(self._send_part, burst[start : start + size], whole)

    async def _send_part(self, part: list[Item], whole: bool) -> None:
        server_id, server = await self._acquire_server(uuid4().hex)
        try:
            async for outputs in server.generate_many.remote([request for request, _ in part], whole):
                for number, output in (await outputs).items():
                    _answer(part[number][1], output)
        finally:
            self._release_server(server_id)


def _answer(future: asyncio.Future, output: TokenOutput | BaseException) -> None:
    """Give a caller its output, unless it is gone."""
    if future.done():
        return
    if isinstance(output, BaseException):
        future.set_exception(output)
        return
    version = output.extra_fields.get("global_steps")
    output.extra_fields.setdefault("min_global_steps", version)
    output.extra_fields.setdefault("max_global_steps", version)
    future.set_result(output)


def _content(item: Item) -> tuple[list[int], int]:
    """Sort key of a request. Requests of one prompt differ by their seeds."""
    (prompt_ids, sampling_params, _), _ = item
    return prompt_ids, sampling_params.get("seed") or 0
