"""The rollout's server without Ray: its methods on one event loop, with a real model."""

import asyncio
import shutil

import pytest
import torch
from safetensors.torch import save
from transformers import Gemma2Config, Gemma2ForCausalLM, LlamaForCausalLM, MambaConfig, MambaForCausalLM
from verl.workers.config import HFModelConfig, RolloutConfig
from verl.workers.rollout.replica import RolloutMode

from rl.common.errors import UserError
from verl.dph.hf_rollout.generation import Generation
from verl.dph.hf_rollout.server import HFServer

PROMPT = [5, 6, 7]
SAMPLE = {"temperature": 1.0, "max_tokens": 10, "ignore_eos": True, "logprobs": True}


@pytest.fixture(scope="module")
def model_config(tiny_model_path):
    return HFModelConfig(path=str(tiny_model_path))


@pytest.fixture
def serve(model_config, device):
    """Run a coroutine function on a fresh server."""

    def run(use, *, mode=RolloutMode.STANDALONE, model=model_config, **settings):
        common = {"tensor_model_parallel_size": 1, "prompt_length": 16, "response_length": 16}
        config = RolloutConfig(name="hf", **{"dtype": "float32"} | common | settings)

        async def main():
            server = HFServer(config, model, mode, replica_rank=0, device=device)
            await server.launch_server()
            return await use(server)

        return asyncio.run(main())

    return run


async def ask(server, prompt=PROMPT, **params):
    return await server.generate(prompt, SAMPLE | params, "request")


async def answers_to(server, burst, whole=True):
    """Outputs of a burst, in order, and how many of them came together."""
    parts = [part async for part in server.generate_many(burst, whole)]
    assert all(list(part) == sorted(part) for part in parts)
    return [output for _, output in sorted(item for part in parts for item in part.items())], [*map(len, parts)]


def altered_weights(path) -> bytes:
    model = LlamaForCausalLM.from_pretrained(path, dtype=torch.float32)
    torch.manual_seed(5)
    return save({name: torch.randn_like(weight) * 0.3 for name, weight in model.named_parameters()})


def test_without_a_seed_repeated_prompts_differ_and_a_new_run_repeats_them(serve):
    async def several(server):
        outputs = await asyncio.gather(*[ask(server) for _ in range(6)])
        return [tuple(output.token_ids) for output in outputs]

    answers = serve(several)
    assert len(set(answers)) == 6
    assert serve(several) == answers
    assert serve(several, seed=43) != answers


def test_a_whole_burst_is_answered_by_itself(serve, monkeypatch):
    """Bit for bit: in company of other requests, other kernels would round differently."""
    batches = []
    build = Generation.__init__

    def observed(self, model, requests, sampled_vocabulary):
        batches.append([list(request.prompt_ids) for request in requests])
        build(self, model, requests, sampled_vocabulary)

    monkeypatch.setattr(Generation, "__init__", observed)
    burst = [([4, 9, last], SAMPLE | {"seed": last}, "request") for last in range(4, 12)]

    async def alone(server):
        return (await answers_to(server, burst))[0]

    async def in_company(server):
        others = [ask(server, [5, 6, last]) for last in range(4, 24)]
        (outputs, _), *_ = await asyncio.gather(*(answers_to(server, burst) for _ in range(2)), *others)
        return outputs

    first = serve(alone)
    assert batches == [[prompt for prompt, _, _ in burst]]
    batches.clear()
    second = serve(in_company)
    assert sorted(map(len, batches)) == [8, 8, 20]
    assert [batch for batch in batches if len(batch) == 8] == [[prompt for prompt, _, _ in burst]] * 2
    assert [output.log_probs for output in first] == [output.log_probs for output in second]


def test_where_a_response_ends(serve):
    async def use(server):
        lengths = [len((await ask(server, max_tokens=limit)).token_ids) for limit in (None, 100)]
        return lengths, await asyncio.gather(*[ask(server, seed=n, ignore_eos=False, max_tokens=17) for n in range(30)])

    lengths, outputs = serve(use, max_model_len=20)
    assert lengths == [16, 17]  # the default, and what max_model_len leaves
    assert any(output.token_ids[-1] == 1 and len(output.token_ids) < 17 for output in outputs)
    assert all(1 not in output.token_ids[:-1] for output in outputs)


def test_a_model_that_keeps_no_keys_and_values_is_refused(serve, tiny_model_path, tmp_path):
    """Mamba ignores the cache that it is given: each token would continue an empty context."""
    shutil.copytree(tiny_model_path, tmp_path, dirs_exist_ok=True)
    size = {"vocab_size": 32, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}
    MambaForCausalLM(MambaConfig(**size, max_position_embeddings=128)).save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"rollout.name=hf continues .* does not have \(MambaConfig\)"):
        serve(ask, model=HFModelConfig(path=str(tmp_path), override_config={"attn_implementation": "eager"}))


def test_a_failure_reaches_its_callers_and_the_server_goes_on(serve, monkeypatch):
    step = Generation.step

    async def use(server):
        monkeypatch.setattr(Generation, "step", lambda self: 1 / 0)
        results = await asyncio.gather(ask(server), ask(server), return_exceptions=True)
        assert [str(result) for result in results] == [
            "generation failed in the hf rollout: ZeroDivisionError('division by zero')"
        ] * 2
        monkeypatch.setattr(Generation, "step", step)
        return await ask(server)

    assert len(serve(use).token_ids) == 10


def test_new_weights_come_between_two_batches_and_have_a_version(serve, tiny_model_path):
    async def use(server):
        before = await ask(server, seed=1, max_tokens=40)
        running = asyncio.create_task(ask(server, seed=1, max_tokens=40))
        while not server._active:
            await asyncio.sleep(0.001)
        await server.stage_weights(altered_weights(tiny_model_path), first=True)
        await server.commit_weights(7)
        assert running.done() and (await running).token_ids == before.token_ids
        return before, await ask(server, seed=1, max_tokens=40)

    before, after = serve(use)
    assert after.token_ids != before.token_ids
    assert after.extra_fields == {"global_steps": 7}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_cap_on_attention_logits_is_applied(serve, tiny_model_path, tmp_path, dtype):
    """As in Gemma 2; sdpa, and the folded one with it, would leave it out."""
    size = {"vocab_size": 32, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "query_pre_attn_scalar": 1}
    torch.manual_seed(0)
    network = Gemma2ForCausalLM(Gemma2Config(**size, **heads, attn_logit_softcapping=0.5, initializer_range=0.5))
    for layer in network.model.layers:  # what attention adds weighs more than the embedding
        torch.nn.init.constant_(layer.post_attention_layernorm.weight, 20.0)
    shutil.copytree(tiny_model_path, tmp_path, dirs_exist_ok=True)
    network.save_pretrained(tmp_path)
    actor = network.to(getattr(torch, dtype)).eval()
    actor.set_attn_implementation("eager")

    async def log_probs(server):
        output = await ask(server, seed=1)
        with torch.no_grad():
            logits = actor.to(server._device)(torch.tensor([PROMPT + output.token_ids], device=server._device)).logits
        expected = logits[0, len(PROMPT) - 1 : -1].float().log_softmax(-1).cpu()
        return torch.tensor(output.log_probs), expected[range(10), output.token_ids]

    sampled, of_actor = serve(log_probs, model=HFModelConfig(path=str(tmp_path)), dtype=dtype)
    torch.testing.assert_close(sampled, of_actor, atol=1e-4 if dtype == "float32" else 0.1, rtol=0)
