"""The scorer client against servers that misbehave: what is tried again, what raises, and that nothing becomes a 0."""

import asyncio
import re

import pytest
from aiohttp import web

from rl.common.errors import UserError
from verl.dph.reward.protocol import ScorerMismatch, ScorerRefused, ScorerUnavailable

STEPS = {
    "500": lambda fake: fake.status(500),
    "503 that is not busy": lambda fake: fake.status(503, error="no"),
    "infra_error": lambda fake: fake.failing_workers,
    "cut": lambda fake: fake.cut,
    "slow": lambda fake: fake.slow,
}


@pytest.mark.parametrize("failure", STEPS)
def test_a_passing_failure_is_tried_again(fake, ask, failure):
    [score], _ = ask(STEPS[failure](fake), fake.right)
    assert score.score == 1.0
    effort = score.effort
    assert (effort.retries, effort.infra_errors) == ((0, 1) if failure == "infra_error" else (1, 0))
    assert (effort.requests, effort.busy_waits, effort.healthy_servers) == (2, 0, 1)
    assert effort.seconds > 0


@pytest.mark.parametrize("failure, hint", [("500", "answers, but fails"), ("cut", "scorer_server_without_ray.py")])
def test_a_lasting_failure_raises_and_is_never_a_score(fake, ask, failure, hint):
    [error], server = ask(STEPS[failure](fake), retries=2)
    assert isinstance(error, ScorerUnavailable)
    assert all(part in str(error) for part in (server.address, "3 attempts", hint))
    assert len(server.requests) == 3


def test_only_the_response_that_killed_a_worker_is_asked_again(fake, client_of):
    """The others of the request have their scores before that."""

    def kills_once(request, body):
        return fake.answers(body, lambda text: fake.answer("infra_error", None) if text == "3" else fake.even(text))

    async def scenario():
        async with fake(kills_once, kills_once, fake.by_parity) as server, client_of(server.address) as client:
            done = []

            async def one(i):
                score = await client.score(str(i), fake.question(i % 2))
                done.append(i)
                return score

            scores = await asyncio.gather(*map(one, range(8)))
            return scores, done, server.requests

    scores, done, requests = asyncio.run(scenario())
    assert [score.acc for score in scores] == [1, 0] * 4
    assert done[-1] == 3 and scores[3].effort.infra_errors == 2 and scores[2].effort.infra_errors == 0
    assert requests[1:] == [{"questions": [{"question": fake.question(1), "responses": ["3"]}]}] * 2


def test_a_response_that_always_kills_workers_takes_no_other_with_it(fake, ask):
    def kills(request, body):
        return fake.answers(body, lambda text: fake.answer("infra_error") if text == "3" else fake.even(text))

    results, _ = ask(kills, texts="012345", retries=1)
    error = results.pop(3)
    assert isinstance(error, ScorerUnavailable)
    assert re.search("answers, but 2 of its workers failed.*the server's log", str(error))
    assert [score.acc for score in results] == [1, 0, 1, 1, 0]


def test_one_bad_question_or_response_does_not_refuse_the_others(fake, ask):
    def refuses(request, body):
        for number, asked in enumerate(body["questions"]):
            if asked["question"] == fake.question(2) or "bad" in asked["responses"]:
                return web.json_response({"error": f"questions.{number}: it is bad."}, status=400)
        return fake.by_parity(request, body)

    questions = [fake.question(number) for number in (*(i % 4 for i in range(12)), 1)]
    results, server = ask(refuses, texts=[*map(str, range(12)), "bad"], questions=questions)
    bad, sizes = results.pop(), server.sizes
    for i, result in enumerate(results):
        if i % 4 == 2:
            assert isinstance(result, ScorerRefused) and "questions.0: it is bad" in str(result)
        else:
            assert result.acc == int(i % 2 == 0)
    assert isinstance(bad, ScorerRefused)
    # all at once; each question; each response of the two that are refused
    assert sizes[0] == 13 and sorted(sizes[1:5]) == [3, 3, 3, 4] and sizes[5:] == [1] * 7


WRONG = {
    "html": lambda fake, body: web.Response(text="<html>hello</html>"),
    "the old protocol": lambda fake, body: web.json_response({"Scorer1": [[1.0, []]]}),
    "too few answers": lambda fake, body: web.json_response({"answers": [[fake.answer()]]}),
    "unknown outcome": lambda fake, body: fake.always("splendid")(None, body),
    "an answer that is a number": lambda fake, body: fake.answers(body, lambda text: 1.0),
    "nan": lambda fake, body: fake.always(score=float("nan"))(None, body),
    "a reward of 2": lambda fake, body: fake.answers(body, lambda text: fake.answer() | {"reward": 2.0}),
    "no score": lambda fake, body: fake.answers(body, lambda text: {"outcome": "match", "pred": None}),
    "pred is no text": lambda fake, body: fake.always(pred=["SELECT 1"])(None, body),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_answer_outside_the_protocol_is_refused_at_once(fake, ask, wrong):
    results, server = ask(lambda request, body: WRONG[wrong](fake, body), texts="ab")
    assert all(isinstance(result, ScorerMismatch) and server.address in str(result) for result in results)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answered, expected",
    [
        ({"outcome": "gold_timeout", "error": "gold took 60 s"}, (0.0, 0, 1, 0.0)),
        ({"score": 1 - 5e-7}, (1 - 5e-7, 1, 0, 1 - 5e-7)),
        ({"score": 1 + 5e-7}, (1 + 5e-7, 1, 0, 1 + 5e-7)),
        ({"score": 1 - 5e-6}, (1 - 5e-6, 0, 0, 1 - 5e-6)),
        ({"reward": -1.0}, (1.0, 1, 0, -1.0)),
        ({"reward": 1.25}, (1.0, 1, 0, 1.25)),
    ],
)
def test_score_acc_and_reward(fake, ask, answered, expected):
    """acc is 1 within a millionth; a failed reference scores 0; a reward beside the score changes the reward alone."""
    [score], _ = ask(lambda request, body: fake.answers(body, lambda text: fake.answer() | answered))
    assert (score.score, score.acc, score.gold_error, score.reward) == expected
    assert score.error == answered.get("error")


def test_a_client_that_is_closed_leaves_nobody_waiting(fake, client_of):
    async def scenario():
        async with fake(fake.slow) as server:
            client = client_of(server.address)
            under_way = asyncio.create_task(client.score("a", fake.QUESTION))
            await asyncio.sleep(0.05)
            not_sent = asyncio.create_task(client.score("b", fake.QUESTION))
            await asyncio.sleep(0)
            await client.close()
            return await asyncio.gather(under_way, not_sent, return_exceptions=True)

    assert all(isinstance(result, asyncio.CancelledError) for result in asyncio.run(scenario()))


def test_a_dead_scorer_is_named_at_start(fake, client_of):
    async def scenario():
        async with fake(fake.right) as gone:
            dead = gone.address
        async with client_of(dead) as client:
            with pytest.raises(ScorerUnavailable, match=f"No scorer answers at {dead}"):
                await client.wait_until_healthy(timeout_s=0)
            with pytest.raises(UserError):
                await client.score("text", fake.QUESTION)

    asyncio.run(scenario())
