"""The scorer client against servers that misbehave: scripted answers over real HTTP."""

import asyncio
import copy

import pytest
from aiohttp import web

from verl.dph.errors import UserError
from verl.dph.reward import client as client_module
from verl.dph.reward.client import ScorerClient, ScorerRefused, ScorerUnavailable
from verl.dph.reward.servers import ServerPool

QUESTION = {"db_id": "shop/shop.sqlite", "gold_sql": "SELECT 1", "cmp_method": "bird"}


def graded(score: float = 1.0, outcome: str = "match", pred: str | None = "SELECT 1") -> web.Response:
    return web.json_response({"Scorer1": [[score, [["result", []]]]], "details": [{"outcome": outcome, "pred": pred}]})


def question(number: int) -> dict[str, str]:
    """Questions that differ: responses to one question travel in one request."""
    return QUESTION | {"gold_sql": f"SELECT {number}"}


class ScriptedServer:
    """Answers PUT /api by calling the script's steps in turn; the last one repeats."""

    def __init__(self, *steps):
        self.steps = steps
        self.requests = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def __aenter__(self):
        app = web.Application()
        app.router.add_put("/api", self._answer)
        app.router.add_get("/heartbeat", self._heartbeat)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.address = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *exception):
        await self._runner.cleanup()

    async def _answer(self, request):
        self.requests.append(await request.json())
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            step = self.steps[min(len(self.requests), len(self.steps)) - 1]
            return await step(request) if asyncio.iscoroutinefunction(step) else step()
        finally:
            self.in_flight -= 1

    async def _heartbeat(self, request):
        return web.json_response({"status": "healthy"})


async def cut_the_line(request):
    request.transport.close()
    return web.Response()


async def too_slow(request):
    await asyncio.sleep(1)
    return graded()


def client_of(scorer, **settings) -> ScorerClient:
    return ScorerClient(scorer, **{"first_backoff_s": 0.01, "retries": 3, "timeout_s": 0.4} | settings)


@pytest.mark.parametrize(
    "failure",
    [
        lambda: web.Response(status=500),
        lambda: web.Response(status=503),
        lambda: web.Response(status=429),
        lambda: graded(outcome="infra_error", score=0.0),
        cut_the_line,
        too_slow,
    ],
    ids=["500", "503", "429", "infra_error", "cut", "slow"],
)
def test_a_passing_failure_is_tried_again(failure):
    async def scenario():
        async with ScriptedServer(failure, graded) as server, client_of(server.address) as client:
            return await client.score("text", QUESTION)

    assert asyncio.run(scenario()).score == 1.0


@pytest.mark.parametrize(
    "failure", [lambda: web.Response(status=500), cut_the_line, lambda: graded(outcome="infra_error", score=0.0)]
)
def test_a_lasting_failure_raises_and_is_never_a_score(failure):
    async def scenario():
        async with ScriptedServer(failure) as server, client_of(server.address, retries=2) as client:
            with pytest.raises(ScorerUnavailable) as error:
                await client.score("text", QUESTION)
            return server, str(error.value)

    server, sentence = asyncio.run(scenario())
    assert server.address in sentence
    assert "scorer_server_without_ray.py" in sentence
    assert len(server.requests) >= 3


def test_a_wrong_request_raises_at_once_with_the_servers_sentence():
    async def scenario():
        refusal = lambda: web.json_response({"detail": "The database x.sqlite is unknown."}, status=404)  # noqa: E731
        async with ScriptedServer(refusal) as server, client_of(server.address) as client:
            with pytest.raises(ScorerRefused, match="The database x.sqlite is unknown") as error:
                await client.score("text", QUESTION)
            return len(server.requests), str(error.value)

    requests, sentence = asyncio.run(scenario())
    assert requests == 1
    assert "404" in sentence


@pytest.mark.parametrize(
    "answer",
    [
        lambda: web.Response(text="<html>hello</html>"),
        lambda: web.json_response({"Scorer1": [[1.0, []]]}),
        lambda: graded(outcome="splendid"),
        lambda: graded(score=float("nan")),
    ],
    ids=["html", "no details", "unknown outcome", "nan"],
)
def test_an_answer_outside_the_protocol_is_refused(answer):
    async def scenario():
        async with ScriptedServer(answer) as server, client_of(server.address) as client:
            with pytest.raises(ScorerRefused, match=server.address):
                await client.score("text", QUESTION)

    asyncio.run(scenario())


def test_a_server_that_is_gone_is_left_for_the_other():
    async def scenario():
        async with ScriptedServer(graded) as good:
            async with ScriptedServer(graded) as gone:
                dead = gone.address
            async with client_of(f"{dead},{good.address}") as client:
                scores = await asyncio.gather(*(client.score("text", question(i)) for i in range(20)))
                return scores, len(good.requests)

    scores, requests = asyncio.run(scenario())
    assert [score.acc for score in scores] == [1] * 20
    assert requests == 20


async def half_right(request):
    """Scores 1 for the responses with an even number; refuses a request that holds the response "bad"."""
    responses = (await request.json())["gen_responses"]
    if "bad" in responses:
        return web.json_response({"error": "This response is too long."}, status=413)
    even = [int(response) % 2 == 0 for response in responses]
    return web.json_response(
        {
            "Scorer1": [[float(right), [["result", []]]] for right in even],
            "details": [{"outcome": "match" if right else "mismatch", "pred": "SELECT 1"} for right in even],
        }
    )


def test_responses_to_one_question_travel_together_and_keep_their_order():
    async def scenario():
        async with ScriptedServer(half_right) as server, client_of(server.address) as client:
            scores = await asyncio.gather(*(client.score(str(i), question(i % 3)) for i in range(60)))
            return scores, server.requests

    scores, requests = asyncio.run(scenario())
    assert [score.acc for score in scores] == [int(i % 2 == 0) for i in range(60)]
    # 20 responses to each of 3 questions, at most 16 in a request
    assert sorted(len(request["gen_responses"]) for request in requests) == [4, 4, 4, 16, 16, 16]


def test_a_response_that_is_refused_does_not_take_the_others_with_it():
    async def scenario():
        async with ScriptedServer(half_right) as server, client_of(server.address) as client:
            return await asyncio.gather(
                *(client.score(text, QUESTION) for text in ("0", "bad", "1")), return_exceptions=True
            )

    first, refused, last = asyncio.run(scenario())
    assert (first.acc, last.acc) == (1, 0)
    assert isinstance(refused, ScorerRefused) and "too long" in str(refused)


def test_requests_go_to_the_least_busy_server_and_are_bounded():
    async def pause(request):
        await asyncio.sleep(0.05)
        return graded()

    async def scenario():
        async with ScriptedServer(pause) as one, ScriptedServer(pause) as two:
            async with client_of([one.address, two.address], max_in_flight=6) as client:
                await asyncio.gather(*(client.score("text", question(i)) for i in range(24)))
            return one, two

    one, two = asyncio.run(scenario())
    assert (len(one.requests), len(two.requests)) == (12, 12)
    assert (one.most_in_flight, two.most_in_flight) == (3, 3)


def test_a_directory_of_addresses_is_read_again_while_running(tmp_path, monkeypatch):
    monkeypatch.setattr("verl.dph.reward.servers.REREAD_S", 0.0)

    async def scenario():
        async with ScriptedServer(graded) as one, ScriptedServer(graded) as two:
            (tmp_path / "node1").write_text(one.address + "\n")
            async with client_of(str(tmp_path)) as client:
                await client.score("a", QUESTION)
                (tmp_path / "node1").unlink()
                (tmp_path / "node2").write_text(two.address.removeprefix("http://"))
                await client.score("b", QUESTION)
            return len(one.requests), len(two.requests)

    assert asyncio.run(scenario()) == (1, 1)


def test_an_empty_directory_says_so(tmp_path):
    async def scenario():
        async with client_of(str(tmp_path), retries=0) as client:
            with pytest.raises(ScorerUnavailable, match=f"{tmp_path} holds no address"):
                await client.wait_until_healthy(timeout_s=0)
            with pytest.raises(ScorerUnavailable, match="holds no address"):
                await client.score("a", QUESTION)

    asyncio.run(scenario())


def test_wait_until_healthy_waits_for_a_server_that_starts_late(tmp_path, monkeypatch):
    monkeypatch.setattr("verl.dph.reward.servers.REREAD_S", 0.0)
    monkeypatch.setattr(client_module, "HEARTBEAT_INTERVAL_S", 0.02)

    async def scenario():
        async with client_of(str(tmp_path)) as client, ScriptedServer(graded) as server:
            waiting = asyncio.create_task(client.wait_until_healthy(timeout_s=10))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            (tmp_path / "node1").write_text(server.address)
            await waiting

    asyncio.run(scenario())


def test_a_dead_scorer_is_named_at_start():
    async def scenario():
        async with ScriptedServer(graded) as gone:
            dead = gone.address
        async with client_of(dead) as client:
            with pytest.raises(ScorerUnavailable, match=f"No scorer answers at {dead}"):
                await client.wait_until_healthy(timeout_s=0)

    asyncio.run(scenario())


def test_gold_failures_score_0_and_say_so():
    async def scenario():
        answer = lambda: graded(score=1.0, outcome="gold_timeout")  # noqa: E731
        async with ScriptedServer(answer) as server, client_of(server.address) as client:
            return await client.score("text", QUESTION)

    score = asyncio.run(scenario())
    assert (score.score, score.acc, score.gold_error) == (0.0, 0, 1)


@pytest.mark.parametrize("value, acc", [(1.0, 1), (1 - 5e-7, 1), (1 - 5e-6, 0), (0.8, 0), (0.0, 0)])
def test_acc_is_1_within_a_millionth(value, acc):
    async def scenario():
        async with ScriptedServer(lambda: graded(score=value)) as server, client_of(server.address) as client:
            return await client.score("text", QUESTION)

    score = asyncio.run(scenario())
    assert (score.score, score.acc) == (value, acc)


def test_the_request_follows_the_protocol_and_leaves_its_input_alone():
    question = copy.deepcopy(QUESTION)

    async def scenario():
        async with ScriptedServer(graded) as server, client_of(server.address) as client:
            await client.score("päivää \ud800", question)
            return server.requests

    assert asyncio.run(scenario()) == [{"gen_responses": ["päivää \ud800"], "extra": QUESTION}]
    assert question == QUESTION


@pytest.mark.parametrize("address", ["http://", "http://host", "ftp://host:1", "http://host:99999"])
def test_a_malformed_address_is_refused(address):
    with pytest.raises(UserError, match="not of the form http://host:port"):
        ServerPool(address)


def test_neither_address_nor_directory(tmp_path):
    with pytest.raises(UserError, match="neither an address nor a directory"):
        ServerPool(str(tmp_path / "absent")).servers()


def test_a_comma_list_is_normalized():
    pool = ServerPool(" localhost:5001/, http://10.0.0.2:80 ,")
    assert [server.address for server in pool.servers()] == ["http://localhost:5001", "http://10.0.0.2:80"]
