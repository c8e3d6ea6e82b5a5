"""The scorer client: what it sends, what it tries again, what raises, and how long it waits; nothing becomes a 0."""

import asyncio
import copy
import re
from functools import partial
from unittest.mock import AsyncMock

import pytest
from aiohttp import web

from rl.common.outcomes import VERDICT_HEADER
from rl.scorer.client import scorer_client as client_module
from rl.scorer.client.protocol import ScorerMismatch, ScorerRefused, ScorerUnavailable
from rl.scorer.client.scorer_client import BATCH_RESPONSES

# ---------------------------------------------------------------------------- what is sent


def test_the_request_follows_the_protocol_and_leaves_its_input_alone(fake, ask):
    question = copy.deepcopy(fake.QUESTION)
    questions = [question, {"ground_truth": "4"}, dict(reversed(question.items()))]
    _, server = ask(fake.right, texts=["päivää \ud800", "4", "b"], questions=questions)
    assert server.requests == [
        {
            "questions": [
                {"question": fake.QUESTION, "responses": ["päivää ?", "b"]},
                {"question": {"ground_truth": "4"}, "responses": ["4"]},
            ]
        }
    ]
    assert question == fake.QUESTION


def test_responses_to_all_questions_travel_together_and_keep_their_order(fake, ask):
    numbers = range(300)
    scores, server = ask(fake.by_parity, texts=[*map(str, numbers)], questions=[fake.question(i % 20) for i in numbers])
    assert [score.acc for score in scores] == [int(i % 2 == 0) for i in range(300)]
    assert sorted(server.sizes) == [300 - 9 * BATCH_RESPONSES] + [BATCH_RESPONSES] * 9
    assert all(len(body["questions"]) <= 20 for body in server.requests)
    assert abs(sum(score.effort.requests for score in scores) - 10) < 1e-9


def test_a_request_is_bounded_in_size_too(fake, ask, monkeypatch):
    monkeypatch.setattr(client_module, "BATCH_CHARACTERS", 100)
    _, server = ask(fake.right, texts=["x" * 40] * 8)
    assert sorted(server.sizes) == [2, 3, 3]


# ---------------------------------------------------------------------------- servers that misbehave

STEPS = {
    "500": lambda fake: fake.status(500),
    "408, the body came too late": lambda fake: fake.status(408, error="late"),
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


@pytest.mark.parametrize("failure, hint", [("500", "answers, but fails"), ("cut", "dph scorer --database-path DIR")])
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
    "the old protocol": lambda fake, body: web.json_response({"Scorer1": [[1.0, []]]}),
    "too few answers": lambda fake, body: web.json_response({"answers": [[fake.answer()]]}),
    "unknown outcome": lambda fake, body: fake.always("splendid")(None, body),
    "nan": lambda fake, body: fake.always(score=float("nan"))(None, body),
    "a reward beside the score": lambda fake, body: fake.answers(body, lambda text: fake.answer() | {"reward": 1.0}),
    "no score": lambda fake, body: fake.answers(body, lambda text: {"outcome": "match", "pred": None}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_answer_outside_the_protocol_is_refused_at_once(fake, ask, wrong):
    results, server = ask(lambda request, body: WRONG[wrong](fake, body), texts="ab")
    assert all(isinstance(result, ScorerMismatch) and server.address in str(result) for result in results)
    assert len(server.requests) == 1


def test_a_server_with_other_rules_than_the_first_one_is_refused(fake, client_of, tmp_path, monkeypatch):
    """One that is started while the client runs, in a directory of addresses."""
    monkeypatch.setattr("rl.scorer.client.servers.REREAD_S", 0.0)

    def judging_by(rules):
        def answer(request, body):
            reply = fake.right(request, body)
            reply.headers.update({VERDICT_HEADER: rules} if rules else {})
            return reply

        return answer

    async def scenario():
        first, other, older = (fake(judging_by(rules)) for rules in ("a" * 64, "b" * 64, ""))
        async with first, other, older, client_of(str(tmp_path)) as client:
            for server in (first, older, first):
                (tmp_path / "server").write_text(server.address)
                assert (await client.score("a", fake.QUESTION)).acc == 1
            (tmp_path / "server").write_text(other.address)
            with pytest.raises(ScorerMismatch) as refused:
                await client.score("a", fake.QUESTION)
            async with client_of(other.address) as late:  # the server was started again after it said its rules
                late._transport.info = AsyncMock(return_value={"verdict_sha256": "a" * 64})
                assert await late.verdict_sha256() == "a" * 64
                with pytest.raises(ScorerMismatch):
                    await late.score("a", fake.QUESTION)
            return str(refused.value), first.address, other.address

    said, first, other = asyncio.run(scenario())
    rules = f"(verdict_sha256 {'b' * 12}) than {first} did ({'a' * 12})"
    assert said.startswith(f"Scorer {other} judges by other rules {rules}")


@pytest.mark.parametrize(
    "answered, expected",
    [
        ({"outcome": "gold_timeout", "error": "gold took 60 s"}, (0.0, 0, 1)),
        ({"score": 1 - 5e-7}, (1 - 5e-7, 1, 0)),
        ({"score": 1 + 5e-7}, (1 + 5e-7, 1, 0)),
        ({"score": 1 - 5e-6}, (1 - 5e-6, 0, 0)),
    ],
)
def test_score_and_acc(fake, ask, answered, expected):
    """acc is 1 within a millionth; a failed reference scores 0."""
    [score], _ = ask(lambda request, body: fake.answers(body, lambda text: fake.answer() | answered))
    assert (score.score, score.acc, score.gold_error) == expected
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


# ---------------------------------------------------------------------------- servers that are busy


def test_a_busy_server_is_waited_for_as_long_as_it_says_and_not_by_the_number_of_retries(fake, ask):
    later = partial(fake.busy, seconds="1")
    [score], server = ask(later, *[fake.busy] * 6, fake.right, retries=0)
    assert (score.acc, len(server.requests)) == (1, 8)
    assert (score.effort.busy_waits, score.effort.retries, score.effort.requests) == (7, 0, 8)
    assert score.effort.seconds > 1


def test_a_server_that_stays_busy_has_a_limit_whose_sentence_says_what_to_do(fake, ask):
    [error], server = ask(fake.busy, busy_limit_s=0.5)
    assert isinstance(error, ScorerUnavailable) and len(server.requests) > 1
    assert re.search(r"healthy, but have been busy for 0.5 s: start more.*busy_limit", str(error))


def test_a_dead_server_beside_a_busy_one_ends_nothing(fake, client_of):
    async def scenario():
        async with fake(fake.right) as gone:
            dead = gone.address
        async with (
            fake(*[fake.busy] * 5, fake.right) as server,
            client_of([dead, server.address], retries=2) as client,
        ):
            return await asyncio.gather(*(client.score("text", fake.question(i)) for i in range(64)))

    scores = asyncio.run(scenario())
    assert all(score.acc for score in scores) and scores[-1].effort.healthy_servers == 1


@pytest.mark.parametrize(
    "status, header", [(429, "0"), (503, "-5"), (503, "Wed, 21 Oct 2015 07:28:00 GMT"), (503, "nan"), (503, None)]
)
def test_what_else_is_busy_and_a_strange_retry_after_is_a_short_wait(fake, ask, monkeypatch, status, header):
    monkeypatch.setattr("rl.scorer.client.transport.DEFAULT_BUSY_S", 0.05)
    headers = {} if header is None else {"Retry-After": header}
    [score], _ = ask(
        lambda request, body: web.json_response({"busy": True}, status=status, headers=headers), fake.right, retries=0
    )
    assert score.acc == 1 and score.effort.seconds < 20 and score.effort.busy_waits == 1
