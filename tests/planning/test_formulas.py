"""The formulas of memory and time against numbers computed by hand; GB of 1e9 bytes."""

from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

from rl.configuration.names import CHECKOUT
from rl.planning import memory, step_time
from rl.planning.model_shape import model_shape, shape_of

LLAMA = model_shape("Llama-3.1-8B")
TOKENS = 20_096


def gb(number: float) -> float:
    return round(number / 1e9, 2)


def test_state_of_the_optimizer():
    """8,030,261,248 parameters of 4 bytes over 8 GPUs; two moments of each."""
    assert memory.parameter_shard(8_030_261_248, 8) == 4_015_130_624
    assert memory.adam_shard(8_030_261_248, 8) == 8_030_261_248
    assert memory.parameter_shard(8_030_261_248, 4, 2) == 4_015_130_624


def test_activations_and_logits():
    assert memory.layer_inputs(LLAMA, TOKENS) == 20_096 * 4096 * 2 * 32 == 5_268_045_824
    assert memory.logits(LLAMA, TOKENS) == 20_096 * 128_256 * 2 == 5_154_865_152
    # 16 x 4096 + 4 x 4096 + 4 x 1024 + 12 x 14336 = 258,048 bytes a token
    assert memory.layer_activations(LLAMA, TOKENS) == 20_096 * 258_048
    assert memory.dense_mask(1000) == 3_000_000
    assert memory.float_log_softmax(LLAMA, TOKENS) == 2 * memory.logits(LLAMA, TOKENS)
    assert gb(memory.eager_entropy(LLAMA, TOKENS)) == 20.62
    assert memory.ONE_PASS == 268_435_456


def test_activations_are_what_torch_saves_of_a_layer():
    """In bf16 under autocast, as FSDP2 runs it; the formula adds the gradients of the MLP, 4 m."""
    sizes = dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=4, intermediate_size=160)
    config = LlamaConfig(**sizes, attn_implementation="sdpa")
    tokens, layer = 32, LlamaDecoderLayer(config, 0).bfloat16()
    shape = shape_of(config.to_dict(), "small")
    positions = LlamaRotaryEmbedding(config)(torch.zeros(1), torch.arange(tokens)[None])
    own = {tensor.untyped_storage().data_ptr() for tensor in (*layer.parameters(), *positions)}
    saved = {}

    def save(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage  # kept, so that no other tensor gets its address
        return tensor

    inputs = torch.zeros(1, tokens, 64, dtype=torch.bfloat16, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor), torch.autocast("cpu", torch.bfloat16):
        layer(inputs, position_embeddings=positions, attention_mask=None)
    expected = memory.layer_activations(shape, tokens) - 4 * tokens * shape.intermediate
    # Two norms and the attention's log-sum-exp save float32 numbers: 4 x (2 + 4 heads) bytes.
    assert sum(storage.nbytes() for storage in saved.values()) == expected + tokens * 4 * (2 + 4)


def test_fsdp_in_flight():
    """The output layer has 128256 x 4096 = 525,336,576 parameters, a layer 218,112,000."""
    assert LLAMA.embedding_parameters == 525_336_576 and LLAMA.layer_parameters == 218_112_000
    # 2 x 0.525 + 4 x 0.218, then 2 x 0.525 + 6 x 0.218 more; at the end 3 x 4 x 0.525, tied 2 x 4
    assert gb(memory.gathered(LLAMA)) == 1.92 and gb(memory.in_flight(LLAMA)) == 4.28
    assert gb(memory.end_of_backward(LLAMA)) == 6.30
    assert gb(memory.end_of_backward(replace(LLAMA, tied=True))) == 4.20
    # verl's bucket has 2,048 MiB; in float32 the embedding has 2,004 MiB.
    assert memory.largest_weight(LLAMA) / (1 << 20) == 2004


def test_engine():
    """8 key and value heads of 128 numbers in 32 layers: 2 x 2 x 1024 x 32 = 131,072 bytes a token."""
    assert memory.kv_cache(LLAMA, 1, 1) == 131_072 and memory.kv_cache(LLAMA, 10, 4) == 327_680
    assert memory.engine_weights(LLAMA, 2) == LLAMA.parameters


def test_top_k_store():
    """386 bytes a token; the paper's 2,248 rows at worst, a step at worst, and a step of rows of 300 tokens."""
    assert memory.top_k_bytes_per_token(64) == 386
    assert gb(memory.top_k_bytes(64, 2248, 4096)) == 3.55
    assert memory.top_k_bytes(64, 256, 4096) == pytest.approx(405e6, rel=0.001)
    assert memory.top_k_bytes(64, 256, 300) == pytest.approx(30e6, rel=0.02)


def test_a_micro_batch():
    """8 x 8.03e9 x 20,096 = 1.29e15 FLOP: 3.2 s at 400 TFLOP/s, 9.2 s at 140."""
    flop = step_time.micro_batch_flop(LLAMA.parameters, TOKENS)
    assert flop == pytest.approx(1.29e15, rel=0.001)
    assert (round(flop / 400e12, 1), round(flop / 140e12, 1)) == (3.2, 9.2)
    assert step_time.log_prob_flop(LLAMA.parameters, TOKENS) == flop / 4


def test_masked_attention():
    """4 x 20,096^2 x 4096 x 32 x 4 = 8.47e14 FLOP at 400 / 3.5 TFLOP/s: 7.4 s."""
    assert step_time.masked_attention_flop(LLAMA, TOKENS, 4) == pytest.approx(8.47e14, rel=0.001)
    assert round(step_time.masked_attention_seconds(LLAMA, TOKENS, 4, 400e12), 1) == 7.4


def test_row_tokens():
    assert step_time.row_tokens(16_000, 4096) == (3300, 512)
    assert step_time.row_tokens(2048, 2048) == (1024, 512)
    assert step_time.row_tokens(512, 512) == (256, 128)


def test_rollout():
    """Two prompts with 4 samples on 2 GPUs at 1 PFLOP/s and 1 TB/s.

    Prefill 2 N 200 / 2e15; cache 131,072 x 8 x 50 x (100 + 25) / 2e12; weights 60 x 2 N / 1e12.
    """
    seconds = step_time.rollout_seconds(
        LLAMA,
        prompts=2,
        samples=4,
        prompt_tokens=100,
        response_tokens=50,
        longest=60,
        gpus=2,
        tensor_parallel=1,
        flops=1e15,
        bandwidth=1e12,
    )
    n = 8_030_261_248
    assert seconds == pytest.approx(2 * n * 200 / 2e15 + 131_072 * 8 * 50 * 125 / 2e12 + 60 * 2 * n / 1e12)


def test_moving_weights():
    assert step_time.transfer_seconds(10**10) == 4.0
    assert step_time.swap_seconds(40e9) == 2.0
    # 28 bytes of 1e10 parameters over 4 GPUs, twice, at 20 GB/s
    assert step_time.host_adam_seconds(10**10, 4, 2) == 7.0


def test_the_page_has_every_formula():
    page = (CHECKOUT / "docs" / "howto" / "plan.md").read_text()
    for module in (memory, step_time):
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        assert own and not [name for name in own if f"`{name}`" not in page]
