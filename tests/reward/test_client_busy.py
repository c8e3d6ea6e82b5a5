"""A server that is busy is not broken: the client waits as it is told, or goes to another one, and has a limit."""

import asyncio
import re
from functools import partial

import pytest
from aiohttp import web

from verl.dph.reward.protocol import ScorerBusy


def test_it_is_waited_for_as_long_as_it_says_and_not_by_the_number_of_retries(fake, ask):
    later = partial(fake.busy, seconds="1")
    [score], server = ask(later, *[fake.busy] * 6, fake.right, retries=0)
    assert (score.acc, len(server.requests)) == (1, 8)
    assert (score.effort.busy_waits, score.effort.retries, score.effort.requests) == (7, 0, 8)
    assert score.effort.seconds > 1


def test_another_server_is_preferred_and_asked_at_once(fake, client_of):
    async def scenario():
        async with (
            fake(partial(fake.busy, seconds="60")) as busy,
            fake(fake.by_parity) as free,
            client_of([busy.address, free.address], retries=0) as client,
        ):
            first = await client.score("0", fake.QUESTION)
            scores = await asyncio.gather(*(client.score(str(i), fake.question(i)) for i in range(100)))
            return [first, *scores], len(busy.requests), len(free.requests)

    scores, of_busy, of_free = asyncio.run(scenario())
    assert [score.acc for score in scores[1:]] == [1, 0] * 50
    assert of_busy <= 1 and of_free == 1 + 4
    assert sum(score.effort.busy_waits for score in scores) == 0
    assert all(score.effort.healthy_servers == 2 for score in scores)


def test_a_server_that_stays_busy_has_a_limit_whose_sentence_says_what_to_do(fake, ask):
    [error], server = ask(fake.busy, busy_limit_s=0.5)
    assert isinstance(error, ScorerBusy) and len(server.requests) > 1
    assert re.search(r"healthy, but have been busy for 0.5 s: start more.*busy_limit", str(error))


def test_a_score_between_begins_the_time_anew(fake, ask):
    """Each of two responses is busy for less than the limit."""

    def kills(request, body):
        return fake.answers(body, lambda text: fake.answer("infra_error") if text == "1" else fake.even(text))

    steps = [*[fake.busy] * 2, kills, *[fake.busy] * 2, fake.by_parity]
    (even, odd), _ = ask(*steps, texts="01", busy_limit_s=0.8)
    assert (even.acc, odd.acc, odd.effort.busy_waits, odd.effort.infra_errors) == (1, 0, 4, 1)


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
    monkeypatch.setattr("verl.dph.reward.transport.DEFAULT_BUSY_S", 0.05)
    headers = {} if header is None else {"Retry-After": header}
    [score], _ = ask(
        lambda request, body: web.json_response({"busy": True}, status=status, headers=headers), fake.right, retries=0
    )
    assert score.acc == 1 and score.effort.seconds < 20 and score.effort.busy_waits == 1
