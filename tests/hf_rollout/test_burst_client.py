"""The client that sends requests to hf servers in bursts."""

import asyncio
from types import SimpleNamespace

import pytest
import ray
from verl.workers.rollout.replica import TokenOutput

from verl.dph.hf_rollout.burst_client import BurstClient


class Remote:
    """A method of a Ray actor: `.remote(...)` gives something to await."""

    def __init__(self, method):
        self.method = method

    async def remote(self, *args, **kwargs):
        return self.method(*args, **kwargs)


class Stream(Remote):
    """A method that yields: `.remote(...)` gives what each item can be awaited from."""

    async def remote(self, *args, **kwargs):
        for item in self.method(*args, **kwargs):
            answer = asyncio.get_running_loop().create_future()
            answer.set_result(item)
            yield answer


class Server:
    """An hf server that answers a prompt with its reverse, the last prompt first, and fails on prompts with 13."""

    def __init__(self):
        self.bursts, self.seeds, self.whole = [], [], []
        self.generate_many = Stream(self._generate_many)

    def _generate_many(self, requests, whole):
        self.bursts.append([prompt for prompt, _, _ in requests])
        self.seeds.append([params.get("seed") for _, params, _ in requests])
        self.whole.append(whole)
        for number, (prompt, *_) in reversed([*enumerate(requests)]):
            output = TokenOutput(token_ids=prompt[::-1], extra_fields={"global_steps": 7})
            yield {number: ValueError("unlucky") if prompt[0] == 13 else output}


class Balancer:
    """verl's load balancer, as far as the client asks it."""

    def __init__(self, servers):
        self.servers, self.acquired, self.released = servers, [], []
        self.get_all_servers = Remote(lambda: list(servers))
        self.require_acquire_fields = Remote(list)
        self.require_release_fields = Remote(list)
        self.acquire_server = Remote(self._acquire)
        self.release_server = SimpleNamespace(remote=lambda server_id: self.released.append(server_id))

    def _acquire(self, request_id):
        name = list(self.servers)[len(self.acquired) % len(self.servers)]
        self.acquired.append(name)
        return name, self.servers[name]


def burst_client(*servers):
    balancer = Balancer(dict(zip("ab", servers, strict=False)))
    return BurstClient(SimpleNamespace(config=None, _load_balancer=balancer))


def ask(client, prompts):
    async def scenario():
        return await asyncio.gather(
            *(client.generate(str(i), prompt_ids=p, sampling_params={}) for i, p in enumerate(prompts)),
            return_exceptions=True,
        )

    return asyncio.run(scenario())


def test_failures_and_what_is_not_taken():
    # Ray sends the client, as an argument of an actor, to verl's agent loop workers.
    client = ray.cloudpickle.loads(ray.cloudpickle.dumps(burst_client(Server())))
    outputs = ask(client, [[1, 2], [13, 2], [3, 4]])
    assert [type(output) for output in outputs] == [TokenOutput, ValueError, TokenOutput]

    def answers_one_and_dies(requests, whole):
        yield {1: TokenOutput(token_ids=[2])}
        raise ZeroDivisionError

    gone = Server()
    gone.generate_many = Stream(answers_one_and_dies)
    client = burst_client(gone)
    assert [type(output) for output in ask(client, [[1], [2]])] == [ZeroDivisionError, TokenOutput]
    assert client._load_balancer.released == ["a"]
    with pytest.raises(ValueError, match="image_data"):
        asyncio.run(client.generate("r", prompt_ids=[1], sampling_params={}, image_data=["x"]))


def ask_as_burst(client, *requests):
    """Ask for (seconds to wait, prompt, seed) requests from tasks of one burst; a task without a prompt fails."""

    async def member(burst, delay, prompt, seed):
        with burst.member():
            await asyncio.sleep(delay)
            if prompt is None:
                raise LookupError("no prompt")
            output = await client.generate("r", prompt_ids=prompt, sampling_params={"seed": seed})
            if seed == 9:  # a second turn, which cannot be known of when the burst is sent
                await client.generate("r", prompt_ids=[99], sampling_params={"seed": seed})
            return output

    async def scenario():
        burst = client.burst(len(requests))
        return await asyncio.gather(*(member(burst, *request) for request in requests), return_exceptions=True)

    return asyncio.run(scenario())


@pytest.mark.parametrize("order", [1, -1])
def test_a_burst_of_known_size_waits_for_its_last_request_and_is_ordered_by_content(order):
    servers = Server(), Server()
    asked = [(1, 7), (2, 9), (1, 3), (2, 8)][::order]
    requests = [(0.02 * i, [prompt, 5], seed) for i, (prompt, seed) in enumerate(asked)]
    outputs = ask_as_burst(burst_client(*servers), *requests)
    assert [output.token_ids for output in outputs] == [[5, prompt] for _, (prompt, _), _ in requests]
    assert [server.bursts[0] for server in servers] == [[[1, 5], [1, 5]], [[2, 5], [2, 5]]]
    assert [server.seeds[0] for server in servers] == [[3, 7], [8, 9]]
    assert servers[0].bursts[1:] + servers[1].bursts[1:] == [[[99]]]
    assert sorted(servers[0].whole + servers[1].whole) == [False, True, True]
