"""What the scorer client sends: many responses in few requests, in the protocol's form, spread over the servers."""

import asyncio
import copy

from verl.dph.reward import client as client_module
from verl.dph.reward.client import BATCH_RESPONSES


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


def test_requests_go_to_the_server_with_the_least_to_do_and_are_bounded(fake, client_of):
    async def pause(request, body):
        await asyncio.sleep(0.05)
        return fake.right(request, body)

    async def scenario():
        async with fake(pause) as one, fake(pause) as two:
            async with client_of([one.address, two.address], max_in_flight=4) as client:
                await asyncio.gather(*(client.score("text", fake.QUESTION) for _ in range(12 * BATCH_RESPONSES)))
            return one, two

    one, two = asyncio.run(scenario())
    assert (len(one.requests), len(two.requests)) == (6, 6)
    assert (one.most_in_flight, two.most_in_flight) == (2 * BATCH_RESPONSES, 2 * BATCH_RESPONSES)


def test_servers_with_equally_much_to_do_take_turns(fake, client_of):
    async def scenario():
        async with fake(fake.right) as one, fake(fake.right) as two, client_of([one.address, two.address]) as client:
            efforts = [(await client.score("text", fake.QUESTION)).effort for _ in range(6)]
            return efforts, len(one.requests), len(two.requests)

    efforts, *requests = asyncio.run(scenario())
    assert requests == [3, 3] and [effort.requests for effort in efforts] == [1] * 6
