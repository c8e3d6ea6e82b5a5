"""The formulas of time against numbers computed by hand."""

import pytest

from rl.planning import step_time
from rl.planning.model_shape import model_shape

LLAMA = model_shape("Llama-3.1-8B")
N, TOKENS = 8.03e9, 20_096


def test_a_micro_batch():
    """8 x 8.03e9 x 20,096 = 1.29e15 FLOP: 3.2 s at 400 TFLOP/s, 9.2 s at 140."""
    flop = step_time.micro_batch_flop(N, TOKENS)
    assert flop == pytest.approx(1.29e15, rel=0.001)
    assert (round(flop / 400e12, 1), round(flop / 140e12, 1)) == (3.2, 9.2)
    assert step_time.log_prob_flop(N, TOKENS) == flop / 4


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
