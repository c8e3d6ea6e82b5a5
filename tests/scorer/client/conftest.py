"""A scorer server that misbehaves as a script says, over real HTTP."""

import asyncio
from collections.abc import Callable

import pytest
from aiohttp import web

from rl.scorer.client.scorer_client import ScorerClient


class FakeScorer:
    """Answers POST /v1/score with the script's steps in turn; the last one repeats.

    A step is a function, or coroutine function, of the request and its body that returns the response.
    """

    QUESTION = {"db_id": "shop/shop.sqlite", "gold_sql": "SELECT 1", "cmp_method": "bird"}

    def __init__(self, *steps):
        self.steps, self.requests = steps, []

    async def __aenter__(self):
        app = web.Application()
        app.router.add_post("/v1/score", self._score)
        app.router.add_get("/heartbeat", self._heartbeat)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.address = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *exception):
        await self._runner.cleanup()

    @property
    def sizes(self) -> list[int]:
        """Responses of each request."""
        return [sum(len(asked["responses"]) for asked in body["questions"]) for body in self.requests]

    async def _score(self, request):
        body = await request.json()
        self.requests.append(body)
        step = self.steps[min(len(self.requests), len(self.steps)) - 1]
        response = step(request, body)
        return await response if asyncio.iscoroutine(response) else response

    async def _heartbeat(self, request):
        return web.json_response({"status": "healthy"})

    @classmethod
    def question(cls, number: int) -> dict[str, str]:
        return cls.QUESTION | {"gold_sql": f"SELECT {number}"}

    @staticmethod
    def answer(outcome="match", score=1.0, pred="SELECT 1", error=None) -> dict:
        return {"outcome": outcome, "score": score, "pred": pred, "error": error}

    @staticmethod
    def answers(body: dict, of: Callable[[str], dict]) -> web.Response:
        """An answer to every response of the request."""
        return web.json_response({"answers": [list(map(of, asked["responses"])) for asked in body["questions"]]})

    @classmethod
    def even(cls, text: str) -> dict:
        """Even numbers are right, and others are not."""
        return cls.answer() if int(text) % 2 == 0 else cls.answer("mismatch", 0.0)

    @classmethod
    def right(cls, request, body):
        return cls.answers(body, lambda text: cls.answer())

    @classmethod
    def always(cls, *answer, **fields):
        return lambda request, body: cls.answers(body, lambda text: cls.answer(*answer, **fields))

    @classmethod
    def by_parity(cls, request, body):
        return cls.answers(body, cls.even)

    @classmethod
    def failing_workers(cls, request, body):
        return cls.answers(body, lambda text: cls.answer("infra_error", 0.0, None, "a worker was lost"))

    @staticmethod
    def busy(request, body, seconds: str = "0"):
        return web.json_response(
            {"error": "The queue is full.", "busy": True}, status=503, headers={"Retry-After": seconds}
        )

    @staticmethod
    def status(code: int, **body) -> Callable:
        return lambda request, asked: web.json_response(body, status=code)

    @staticmethod
    async def cut(request, body):
        request.transport.close()
        return web.Response()

    @classmethod
    async def slow(cls, request, body):
        await asyncio.sleep(3)
        return cls.right(request, body)


@pytest.fixture
def fake():
    return FakeScorer


@pytest.fixture
def client_of():
    """A client that has little patience."""

    def client_of(scorer, **settings) -> ScorerClient:
        return ScorerClient(scorer, **{"first_backoff_s": 0.01, "retries": 3, "timeout_s": 2.0} | settings)

    return client_of


@pytest.fixture
def ask(fake, client_of):
    """Asks one fake server with these steps to grade responses at the same time.

    Args:
        questions: of each response; the same for all by default.

    Returns:
        the results, exceptions among them, and the server.
    """

    def ask(*steps, texts=("text",), questions=None, **settings):
        async def scenario():
            async with fake(*steps) as server, client_of(server.address, **settings) as client:
                calls = map(client.score, texts, questions or [fake.QUESTION] * len(texts))
                return await asyncio.gather(*calls, return_exceptions=True), server

        return asyncio.run(scenario())

    return ask
