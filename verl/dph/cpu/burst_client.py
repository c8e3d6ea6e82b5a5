"""A client that sends the requests of a burst to an hf server together.

Two Ray calls to the load balancer and one to the server for every sample cost a step of the demo (256 samples, two
cores) about as much as the sampling itself. Here they are paid once a burst and server.
"""

import asyncio
import math
from typing import Any
from uuid import uuid4

from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.replica import TokenOutput

# Requests that are made within this time travel together. The server waits as long for a burst to end.
WINDOW_SECONDS = 0.005


class BurstClient(LLMServerClient):
    """verl's LLMServerClient for `HFServer`, whose `generate_many` it calls. Belongs to one event loop."""

    def __init__(self, client: LLMServerClient):
        super().__init__(client.config, client._load_balancer)
        self._waiting: list[tuple[tuple[list[int], dict[str, Any], str], asyncio.Future]] = []
        self._sending: set[asyncio.Task] = set()

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **multimodal: Any
    ) -> TokenOutput:
        """As LLMServerClient.generate, for text only.

        Raises:
            ValueError: for images and the like.
            Exception: what the server raised for this request.
        """
        given = sorted(name for name, value in multimodal.items() if value)
        if given:
            raise ValueError(f"request {request_id}: the hf rollout takes text only, not {given}")
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        if not self._waiting:
            loop.call_later(WINDOW_SECONDS, self._send)
        self._waiting.append(((list(prompt_ids), dict(sampling_params), request_id), answer))
        return await answer

    def _send(self) -> None:
        burst, self._waiting = self._waiting, []
        task = asyncio.get_running_loop().create_task(self._send_burst(burst))
        self._sending.add(task)  # the loop itself holds tasks weakly
        task.add_done_callback(self._sending.discard)

    async def _send_burst(self, burst: list) -> None:
        """Deal the burst out to all servers in equal parts; requests of one prompt stay together, for its cache."""
        try:
            servers = len(await self._load_balancer.get_all_servers.remote())
        except Exception as error:
            _fail(burst, error)
            return
        size = math.ceil(len(burst) / max(servers, 1))
        parts = [burst[start : start + size] for start in range(0, len(burst), size)]
        await asyncio.gather(*(self._send_part(part) for part in parts))

    async def _send_part(self, part: list) -> None:
        try:
            server_id, server = await self._acquire_server(uuid4().hex)
            try:
                outputs = await server.generate_many.remote([request for request, _ in part])
            finally:
                self._release_server(server_id)
        except Exception as error:
            _fail(part, error)
            return
        for (_, answer), output in zip(part, outputs, strict=True):
            if answer.done():  # the caller went away
                continue
            if isinstance(output, BaseException):
                answer.set_exception(output)
                continue
            version = output.extra_fields.get("global_steps")
            output.extra_fields.setdefault("min_global_steps", version)
            output.extra_fields.setdefault("max_global_steps", version)
            answer.set_result(output)


def _fail(part: list, error: Exception) -> None:
    for _, answer in part:
        if not answer.done():
            answer.set_exception(error)
