"""Memory and time of a step against numbers computed by hand; GB of 1e9 bytes."""

from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

from rl.checks.estimate import FLASH, SDPA, Engine, _update, engine_needs, phases, problems, seconds, workload
from rl.checks.gpus import GPU_TYPES, GpuType
from rl.checks.model_shape import model_shape, shape_of
from rl.common.errors import UserError
from rl.configuration.arguments import run_of
from tests.checks.conftest import bytes_kept_for_backward, gb

LLAMA = model_shape("Llama-3.1-8B")
A800, H100 = GPU_TYPES["a800"], GPU_TYPES["h100"]


def totals(run, shape=LLAMA, gpu=A800) -> dict[str, int]:
    return {name: round(sum(parts.values()) / 1e9) for name, parts in phases(run, shape, gpu).items()}


def test_llama_8b_on_8_gpus(llama_sql):
    """Worked out by hand from verl's code: 8,030,261,248 parameters of 4 bytes over 8 GPUs, T = 20,096 tokens."""
    assert LLAMA.embedding_parameters == 525_336_576 and LLAMA.layer_parameters == 218_112_000
    assert totals(llama_sql) == {"update": 36, "rollout": 72, "loading": 8}
    assert gb(phases(llama_sql, LLAMA, A800)["update"], 1) == {
        "parameters": 4.0,
        "Adam's moments": 8.0,
        "gradients": 4.0,
        "layer inputs": 5.3,  # 20,096 x 4096 x 2 x 32
        "logits": 5.4,  # 20,096 x 128,256 x 2, and 4 x 64 MiB
        "FSDP in flight": 4.3,  # 4 x 0.525 + 10 x 0.218
        "contexts": 4.5,
    }
    # 20,096 x (16 x 4096 + 4 x 4096 + 4 x 1024 + 12 x 14336) = 20,096 x 258,048 bytes, where the vocabulary is small.
    update = phases(llama_sql, replace(LLAMA, vocabulary=1000), A800)["update"]
    assert update["activations of a layer"] == 20_096 * 258_048 and "logits" not in update
    assert phases(replace(llama_sql, attention=SDPA), LLAMA, A800)["update"]["dense mask"] == 3 * 20_096**2
    for changes, copies in (({"scaled": True}, 2), ({"entropy": True}, 3), ({"scaled": True, "entropy": True}, 4)):
        logits = phases(replace(llama_sql, **changes), LLAMA, A800)["update"]["logits"]
        assert logits == copies * 20_096 * 128_256 * 2 + (1 << 28)


def test_activations_are_what_torch_saves_of_a_layer(llama_sql):
    """In bf16 under autocast, as FSDP2 runs it; the formula adds the gradients of the MLP, 4 m."""
    sizes = dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=4, intermediate_size=160, vocab_size=1)
    config = LlamaConfig(**sizes, attn_implementation="sdpa")
    tokens, layer = 32, LlamaDecoderLayer(config, 0).bfloat16()
    shape = shape_of(config.to_dict(), "small")
    positions = LlamaRotaryEmbedding(config)(torch.zeros(1), torch.arange(tokens)[None])
    inputs = torch.zeros(1, tokens, 64, dtype=torch.bfloat16, requires_grad=True)
    half = torch.autocast("cpu", torch.bfloat16)
    with bytes_kept_for_backward(*layer.parameters(), *positions) as kept, half:
        layer(inputs, position_embeddings=positions, attention_mask=None)
    # With a million tokens, so that they are more than the buffers of the logits.
    many = replace(llama_sql, engine=replace(llama_sql.engine, max_tokens=1_000_000))
    held = _update(many, shape)["activations of a layer"] * tokens // 1_000_000
    expected = held - 4 * tokens * shape.intermediate
    # Two norms and the attention's log-sum-exp save float32 numbers: 4 x (2 + 4 heads) bytes.
    assert kept() == expected + tokens * 4 * (2 + 4)


def test_the_engine_s_needs(llama_sql):
    """8 key and value heads of 128 numbers in 32 layers: 2 x 2 x 1024 x 32 = 131,072 bytes a token."""
    weights, cache = 2 * 8_030_261_248, 131_072 * 20_096
    assert engine_needs(llama_sql, LLAMA) == weights + cache + 2.5e9
    on_two = replace(llama_sql, engine=replace(llama_sql.engine, tensor_parallel=2))
    assert engine_needs(on_two, LLAMA, rows=4) == (weights + 4 * cache) / 2 + 2.5e9
    on_16 = replace(llama_sql, engine=replace(llama_sql.engine, tensor_parallel=16))
    assert engine_needs(on_16, LLAMA) == weights / 16 + cache / 8 + 2.5e9
    small = replace(llama_sql, engine=Engine("False", 0.2, 1, 20_096))
    assert problems(small, LLAMA, A800) == ["vLLM needs 21 GB and its share is 16 of 80 GB"]


def test_offloading(llama_sql):
    """True empties the rollout, policy the update too; the shards are loaded onto the GPU in any case."""
    plain, idle, always = (
        totals(replace(llama_sql, engine=replace(llama_sql.engine, offload=offload)))
        for offload in ("False", "True", "policy")
    )
    assert (plain["rollout"], idle["rollout"], always["rollout"]) == (72, 60, 60)
    assert (plain["update"], idle["update"], always["update"]) == (36, 36, 19)
    assert plain["loading"] == always["loading"] == 8


def test_what_does_not_fit(llama_sql):
    """On 4 GPUs: parameters 8, Adam 16, vLLM 56; nothing is left of 80 GB."""
    assert problems(llama_sql, LLAMA, A800) == []
    assert problems(replace(llama_sql, gpus_per_node=4, shard_gpus=4), LLAMA, A800) == [
        "the second rollout needs 84 of 80 GB"
    ]
    odd = replace(llama_sql, gpus_per_node=2, engine=replace(llama_sql.engine, tensor_parallel=4))
    assert problems(odd, LLAMA, A800) == ["TENSOR_PARALLEL=4 does not divide the 2 GPUs"]
    eighths = replace(llama_sql, engine=replace(llama_sql.engine, tensor_parallel=8))
    assert "does not divide the 28 attention heads" in problems(eighths, model_shape("Qwen2.5-7B"), A800)[0]
    short = replace(llama_sql, engine=replace(llama_sql.engine, max_tokens=8192))
    assert problems(short, LLAMA, A800) == ["MAX_TOKENS_PER_GPU=8192 is less than the longest row, 20096 tokens"]
    assert problems(replace(short, ulysses=4), LLAMA, A800) == []


@pytest.mark.parametrize(
    ("gpu", "update", "log_probs", "minutes"), [(H100, 150, 34, 3.6), (A800, 435, 97, 9.7)], ids=["h100", "a800"]
)
def test_times_of_llama_8b(llama_sql, gpu, update, log_probs, minutes):
    found = seconds(llama_sql, LLAMA, gpu)
    assert found["update"] == pytest.approx(update, rel=0.02)
    assert found["old log-probs"] == pytest.approx(log_probs, rel=0.01)
    assert sum(found.values()) / 60 == pytest.approx(minutes, rel=0.03)
    # Attention over the whole square: 6 to 9 s more for each of 47 micro-batches.
    masked = seconds(replace(llama_sql, attention=SDPA), LLAMA, gpu)["update"] - found["update"]
    assert 6 <= masked / 47 * gpu.tflops / 400 <= 9
    with_reference = seconds(replace(llama_sql, reference=True), LLAMA, gpu)
    assert with_reference["reference log-probs"] == found["old log-probs"]
    assert seconds(replace(llama_sql, epochs=4), LLAMA, gpu)["update"] == 4 * found["update"]
    assert seconds(llama_sql, LLAMA, replace(gpu, tflops=None)) == {}


def test_the_rollout_s_time(llama_sql):
    """Two prompts with 4 samples on 2 GPUs at 1 PFLOP/s and 1 TB/s; rows of 256 tokens, 128 of them the response.

    Prefill 2 N 256 / 2e15; cache 131,072 x 8 x 128 x (128 + 64) / 2e12; weights 512 x 2 N / 1e12.
    """
    run = replace(llama_sql, gpus_per_node=2, prompts=2, samples=4, max_prompt=512, max_response=512)
    n = 8_030_261_248
    expected = 2 * n * 256 / 2e15 + 131_072 * 8 * 128 * 192 / 2e12 + 512 * 2 * n / 1e12
    assert seconds(run, LLAMA, GpuType("x", 80, 1000, 1.0))["rollout"] == pytest.approx(expected)


def test_assumed_lengths(llama_sql):
    assert llama_sql.row_tokens == (3300, 512)
    assert replace(llama_sql, max_prompt=2048, max_response=2048).row_tokens == (1024, 512)


@pytest.mark.parametrize(
    ("attention", "response", "tokens"),
    [("flash_attention_2", 4096, 20_096), ("kernels-community/flash-attn2", 96, 16_384), ("sdpa", 96, 16_096)],
)
def test_micro_batches_that_the_settings_leave_open(values, attention, response, tokens):
    values |= {
        "data.max_response_length": response,
        "actor_rollout_ref.model.override_config.attn_implementation": attention,
    }
    run = workload("verl.dph.main", values)
    assert run.engine.max_tokens == tokens and run.attention == (SDPA if attention == "sdpa" else FLASH)


def test_other_programs(plain_environment, monkeypatch):
    """Pre-sampling has a rollout alone, the store no optimizer."""
    monkeypatch.setenv("DEVICE", "cuda")
    monkeypatch.setenv("GPUS_PER_NODE", "2")
    sampling, store = (
        workload(run.program, run.values)
        for run in (run_of(f"scripts/llama/{name}.sh", []) for name in ("offline_sampling", "get_correct_data_tensor"))
    )
    assert totals(sampling) == {"rollout": 56} and not seconds(sampling, LLAMA, A800)
    held = phases(store, LLAMA, A800)
    assert list(held) == ["log-probs", "rollout", "loading"] and not problems(store, LLAMA, A800)
    assert not any("Adam's moments" in parts for parts in held.values())


@pytest.mark.parametrize("section", ["actor", "actor.fsdp_config"])
def test_both_names_of_ulysses_are_read(values, section):
    key = f"actor_rollout_ref.{section}.ulysses_sequence_parallel_size"
    assert workload("verl.dph.main", values | {key: 2}).ulysses == 2


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"actor_rollout_ref.actor.fsdp_config.use_no_sync_for_gradient_accumulation": True},
            "whole gradients on every GPU",
        ),
        ({"actor_rollout_ref.model.lora_rank": 32}, "LoRA .actor_rollout_ref.model.lora_rank=32. is not modelled"),
        ({"algorithm.adv_estimator": "gae"}, "a critic"),
        ({"actor_rollout_ref.actor.fsdp_config.param_offload": True}, "offloading only the parameters"),
        ({"actor_rollout_ref.model.override_config.attn_implementation": "eager"}, "=eager is not modelled"),
    ],
)
def test_runs_that_are_not_modelled(values, changed, words):
    with pytest.raises(UserError, match=words):
        workload("verl.dph.main", values | changed)
