"""The rollout as verl uses it: a server in a Ray actor, requests and weights over Ray."""

import asyncio

import pytest
import ray
import torch
from transformers import LlamaForCausalLM
from verl.workers.config import HFModelConfig, RolloutConfig
from verl.workers.rollout.replica import RolloutMode, RolloutReplica

from verl.dph.hf_rollout.adapter import HFServerAdapter
from verl.dph.hf_rollout.replica import HFReplica
from verl.dph.hf_rollout.server import HFServer
from verl.dph.training.held_requests import make_room

SAMPLE = {"temperature": 1.0, "max_tokens": 10, "ignore_eos": True, "logprobs": True}


@pytest.fixture
def local_ray(monkeypatch, device):
    if device == "cpu":
        monkeypatch.setenv("VERL_PLATFORM", "cpu")
    monkeypatch.setattr(RolloutReplica, "max_concurrency", RolloutReplica.max_concurrency)
    make_room()
    ray.init(address="local", num_cpus=1, num_gpus=1, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def config(**settings) -> RolloutConfig:
    return RolloutConfig(
        name="hf", dtype="float32", tensor_model_parallel_size=1, prompt_length=16, response_length=16, **settings
    )


def requests(generate):
    return [generate([4, 5, 6 + n % 3], SAMPLE | {"seed": n}, f"request {n}") for n in range(20)]


async def answers_without_ray(model_config, device) -> list[list[int]]:
    server = HFServer(config(), model_config, RolloutMode.STANDALONE, replica_rank=0, device=device)
    await server.launch_server()
    return [output.token_ids for output in await asyncio.gather(*requests(server.generate))]


def test_requests_and_weights_over_ray(local_ray, tiny_model_path, device):
    model_config = HFModelConfig(path=str(tiny_model_path))
    parameters = dict(LlamaForCausalLM.from_pretrained(tiny_model_path, dtype=torch.float32).named_parameters())
    sent = []

    def altered(leave_out: str | None = None):
        for name, weight in parameters.items():
            sent.append(name)
            if name != leave_out:
                yield name, weight.flip(0)

    async def round_trip():
        replica = HFReplica(replica_rank=0, config=config(), model_config=model_config, gpus_per_node=1)
        await replica.init_standalone()
        generate = replica.server_handle.generate.remote
        outputs = await asyncio.gather(*requests(generate))
        assert [output.token_ids for output in outputs] == await answers_without_ray(model_config, device)

        with pytest.raises(ValueError, match="no room"):
            await generate([4] * 500, SAMPLE, "too long")

        adapter = HFServerAdapter(config(), model_config, device_mesh=None, replica_rank=0)
        await adapter.resume(tags=["weights"])  # as verl calls it
        await adapter.release()
        first, *_, last = parameters
        with pytest.raises(ValueError, match=f"the first is {first}"):
            await adapter.update_weights(altered(leave_out=first), global_steps=3)
        with pytest.raises(ValueError, match="no parameter 'unknown'"):
            await adapter.update_weights(iter([("unknown", torch.zeros(1))]), global_steps=3)
        sent.clear()
        with pytest.raises(ValueError, match="named_tensors"):
            await adapter.update_weights(altered(), wire_format="delta_flush")
        assert sent[-1] == last, "every rank runs through the weights, also when the update fails"

        unchanged = await asyncio.gather(*requests(generate))
        assert [output.token_ids for output in unchanged] == [output.token_ids for output in outputs]
        await adapter.update_weights(altered(), global_steps=4)
        changed = await asyncio.gather(*requests(generate))
        assert [output.token_ids for output in changed] != [output.token_ids for output in outputs]
        assert {output.extra_fields["global_steps"] for output in changed} == {4}

        for control in (replica.sleep, replica.wake_up, replica.clear_kv_cache, replica.release_kv_cache):
            await control()
        await replica.abort_all_requests()
        # More than verl's own number of concurrent calls: without make_room the last call here waits forever.
        held = [asyncio.ensure_future(generate([4], SAMPLE | {"max_tokens": 1}, f"held {n}")) for n in range(1200)]
        await replica.resume_generation()
        assert {output.stop_reason for output in await asyncio.gather(*held)} == {"completed"}
        assert (await generate([4], SAMPLE, "after")).stop_reason == "completed"

    asyncio.run(round_trip())


def test_a_replica_of_several_ranks_is_rejected(tiny_model_path):
    several = RolloutConfig(name="hf", tensor_model_parallel_size=2)
    replica = HFReplica(replica_rank=0, config=several, model_config=None, gpus_per_node=2)
    with pytest.raises(ValueError, match="set all three to 1"):
        asyncio.run(replica.launch_servers())
