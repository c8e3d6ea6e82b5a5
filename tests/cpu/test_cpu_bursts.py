"""What is sent in bursts: requests to hf servers, rows to TransferQueue."""

import asyncio

import pytest
import ray
import torch
from tensordict import TensorDict
from verl.workers.rollout.replica import TokenOutput

from verl.dph.cpu.agent_loop import BurstQueue
from verl.dph.hf_rollout.burst_client import BurstClient


class Remote:
    """A method of a Ray actor: `.remote(...)` gives something to await."""

    def __init__(self, method):
        self.method = method

    async def remote(self, *args, **kwargs):
        return self.method(*args, **kwargs)


class Server:
    """An hf server that answers a prompt with its reverse, and fails on prompts that begin with 13."""

    def __init__(self):
        self.bursts, self.seeds, self.whole = [], [], []
        self.generate_many = Remote(self._generate_many)

    def _generate_many(self, requests, whole):
        self.bursts.append([prompt for prompt, _, _ in requests])
        self.seeds.append([params.get("seed") for _, params, _ in requests])
        self.whole.append(whole)
        return [
            ValueError("unlucky")
            if prompt[0] == 13
            else TokenOutput(token_ids=prompt[::-1], extra_fields={"global_steps": 7})
            for prompt, _, _ in requests
        ]


class Balancer:
    """verl's load balancer, as far as the client asks it."""

    def __init__(self, servers):
        self.servers, self.acquired, self.released = servers, [], []
        self.get_all_servers = Remote(lambda: list(servers))
        self.require_acquire_fields = Remote(list)
        self.require_release_fields = Remote(list)
        self.acquire_server = Remote(self._acquire)
        self.release_server = type("Release", (), {"remote": lambda _, server_id: self.released.append(server_id)})()

    def _acquire(self, request_id):
        name = list(self.servers)[len(self.acquired) % len(self.servers)]
        self.acquired.append(name)
        return name, self.servers[name]


def burst_client(balancer):
    client = object.__new__(BurstClient)
    upstream = type("Upstream", (), {"config": None, "_load_balancer": balancer})()
    BurstClient.__init__(client, upstream)
    return client


def ask(client, prompts):
    async def scenario():
        return await asyncio.gather(
            *(client.generate(str(i), prompt_ids=p, sampling_params={}) for i, p in enumerate(prompts)),
            return_exceptions=True,
        )

    return asyncio.run(scenario())


def test_a_burst_is_one_call_a_server_and_keeps_prompts_together():
    servers = {"a": Server(), "b": Server()}
    balancer = Balancer(servers)
    prompts = [[i // 4, i] for i in range(16)]  # four requests of each of four prompts
    outputs = ask(burst_client(balancer), prompts)
    assert [output.token_ids for output in outputs] == [prompt[::-1] for prompt in prompts]
    assert servers["a"].bursts == [prompts[:8]] and servers["b"].bursts == [prompts[8:]]
    assert sorted(balancer.released) == sorted(balancer.acquired) == ["a", "b"]
    assert outputs[0].extra_fields == {"global_steps": 7, "min_global_steps": 7, "max_global_steps": 7}


def test_a_client_can_be_sent_to_verls_agent_loop_workers():
    # What Ray does with the arguments of an actor.
    client = ray.cloudpickle.loads(ray.cloudpickle.dumps(burst_client(Balancer({"a": Server()}))))
    assert [output.token_ids for output in ask(client, [[1, 2], [3, 4]])] == [[2, 1], [4, 3]]


def test_a_failed_request_fails_alone():
    outputs = ask(burst_client(Balancer({"a": Server()})), [[1, 2], [13, 2], [3, 4]])
    assert [type(output) for output in outputs] == [TokenOutput, ValueError, TokenOutput]


def test_a_server_that_is_gone_fails_its_burst():
    server = Server()
    server.generate_many = Remote(lambda requests, whole: 1 / 0)
    balancer = Balancer({"a": server})
    outputs = ask(burst_client(balancer), [[1], [2]])
    assert [type(output) for output in outputs] == [ZeroDivisionError] * 2
    assert balancer.released == ["a"]


def test_nothing_is_sent_after_the_client_is_closed():
    server = Server()
    client = burst_client(Balancer({"a": server}))

    async def scenario():
        asked = asyncio.create_task(client.generate("r", prompt_ids=[1], sampling_params={}))
        await asyncio.sleep(0)  # its window is open
        await client.close()
        return await asyncio.gather(asked, return_exceptions=True)

    (output,) = asyncio.run(scenario())
    assert isinstance(output, asyncio.CancelledError) and server.bursts == []


def ask_as_burst(client, requests, *, size, failing=0):
    """Ask for (seconds to wait, prompt, seed) requests from tasks of one burst, `failing` of which fail before."""

    async def member(burst, delay, prompt, seed):
        with burst.member():
            await asyncio.sleep(delay)
            if prompt is None:
                raise LookupError("no prompt")
            return await client.generate("r", prompt_ids=prompt, sampling_params={"seed": seed})

    async def scenario():
        burst = client.burst(size)
        asked = [*requests, *[(0.01, None, 0)] * failing]
        return await asyncio.gather(*(member(burst, *request) for request in asked), return_exceptions=True)

    return asyncio.run(scenario())


@pytest.mark.parametrize("order", [1, -1])
def test_a_burst_of_known_size_waits_for_its_last_request_and_is_ordered_by_content(order):
    servers = {"a": Server(), "b": Server()}
    asked = [(1, 7), (2, 9), (1, 3), (2, 8)][::order]
    requests = [(0.02 * i, [prompt, 5], seed) for i, (prompt, seed) in enumerate(asked)]
    outputs = ask_as_burst(burst_client(Balancer(servers)), requests, size=4)
    assert [output.token_ids for output in outputs] == [[5, prompt] for _, (prompt, _), _ in requests]
    assert servers["a"].bursts == [[[1, 5], [1, 5]]] and servers["b"].bursts == [[[2, 5], [2, 5]]]
    assert servers["a"].seeds == [[3, 7]] and servers["b"].seeds == [[8, 9]]
    assert servers["a"].whole == servers["b"].whole == [True]


def test_a_burst_does_not_wait_for_a_task_that_fails_before_its_request():
    server = Server()
    outputs = ask_as_burst(burst_client(Balancer({"a": server})), [(0, [1, 2], 1), (0, [3, 4], 1)], size=4, failing=2)
    assert [type(output) for output in outputs] == [TokenOutput, TokenOutput, LookupError, LookupError]
    assert server.bursts == [[[1, 2], [3, 4]]]


def test_a_tasks_later_requests_go_as_they_come():
    """A second turn cannot be known of when the burst is sent."""
    server = Server()
    client = burst_client(Balancer({"a": server}))

    async def member(burst, turns):
        with burst.member():
            for turn in range(turns):
                await client.generate("r", prompt_ids=[turn], sampling_params={})

    async def scenario():
        burst = client.burst(2)
        await asyncio.gather(member(burst, 2), member(burst, 1))

    asyncio.run(scenario())
    assert server.bursts == [[[0], [0]], [[1]]] and server.whole == [True, False]


def test_images_are_rejected():
    async def scenario():
        await burst_client(Balancer({})).generate("r", prompt_ids=[1], sampling_params={}, image_data=["x"])

    with pytest.raises(ValueError, match="image_data"):
        asyncio.run(scenario())


class Queue:
    """transfer_queue's put and one other function."""

    def __init__(self):
        self.puts = []

    async def async_kv_batch_put(self, *, keys, fields, tags, partition_id):
        if "broken" in keys:
            raise RuntimeError("no room")
        self.puts.append((keys, fields, tags, partition_id))
        return partition_id

    def kv_list(self):
        return "listed"


def put_all(queue, puts):
    async def scenario():
        return await asyncio.gather(
            *(queue.async_kv_batch_put(keys=k, fields=f, tags=t, partition_id=p) for k, f, t, p in puts),
            return_exceptions=True,
        )

    return asyncio.run(scenario())


def row(number):
    return {"responses": torch.arange(number + 1), "score": torch.tensor(float(number))}


def test_rows_of_a_partition_travel_in_one_put():
    queue = Queue()
    burst = BurstQueue(queue)
    results = put_all(burst, [([f"k{i}"], [row(i)], [{"n": i}], "val" if i == 2 else "train") for i in range(4)])
    assert results == ["train", "train", "val", "train"] and burst.kv_list() == "listed"
    by_partition = {partition: (keys, fields, tags) for keys, fields, tags, partition in queue.puts}
    keys, fields, tags = by_partition["train"]
    assert keys == ["k0", "k1", "k3"] and tags == [{"n": 0}, {"n": 1}, {"n": 3}]
    assert isinstance(fields, TensorDict) and fields["score"].tolist() == [0.0, 1.0, 3.0]
    assert [part.tolist() for part in fields["responses"].unbind()] == [[0], [0, 1], [0, 1, 2, 3]]


def test_a_failed_put_reaches_every_row():
    results = put_all(BurstQueue(Queue()), [(["k0"], [row(0)], [{}], "train"), (["broken"], [row(1)], [{}], "train")])
    assert [type(result) for result in results] == [RuntimeError] * 2
