"""Seconds of one step of training, phase by phase. Estimates (docs/howto/plan.md), the rollout's a rough one.

Symbols: N parameters, L layers, a width of the queries; F FLOP/s that training reaches, B bytes/s of a GPU's memory;
T tokens of a micro-batch; G GPUs; P GPUs of a replica.
"""

from rl.planning.memory import kv_cache
from rl.planning.model_shape import ModelShape

# Nobody knows the rows' lengths before the run: tokens of a row, of its response, and how much longer the longest
# response of a step is, below the run's limits (row_tokens).
ROW_TOKENS = 3300
RESPONSE_TOKENS = 512
LONGEST_OF_MEAN = 4
# sdpa with a dense mask reaches this part of F.
MASKED_ATTENTION = 1 / 3.5
# Bytes/s: of weights from the trainer to vLLM, and of a GPU's link to main memory.
TRANSFER = 10e9
HOST_LINK = 20e9
# Bytes per parameter that Adam reads on the host (parameter, gradient, two moments) and writes (all but the gradient).
ADAM_TRAFFIC = 28


def row_tokens(prompt: int, response: int) -> tuple[int, int]:
    """Assumed mean tokens of a row, prompt and response together, and of its response, below the run's limits."""
    row = min(ROW_TOKENS, (prompt + response) // 4)
    return row, min(RESPONSE_TOKENS, row // 2)


def micro_batch_flop(parameters: int, tokens: float) -> float:
    """8 N T: forward (2), backward (4), the forward pass again (2); attention within the rows is left out."""
    return 8 * parameters * tokens


def log_prob_flop(parameters: int, tokens: float) -> float:
    """2 N T: a forward pass."""
    return 2 * parameters * tokens


def masked_attention_flop(shape: ModelShape, tokens: int, passes: int) -> float:
    """4 T^2 a L per pass over the whole T x T square: 4 passes in an update, 1 for log-probs."""
    return 4 * tokens**2 * shape.attention_width * shape.layers * passes


def masked_attention_seconds(shape: ModelShape, tokens: int, passes: int, flops: float) -> float:
    """Of sdpa on one micro-batch of packed rows."""
    return masked_attention_flop(shape, tokens, passes) / (flops * MASKED_ATTENTION)


def rollout_seconds(
    shape: ModelShape,
    *,
    prompts: int,
    samples: int,
    prompt_tokens: int,
    response_tokens: int,
    longest: int,
    gpus: int,
    tensor_parallel: int,
    flops: float,
    bandwidth: float,
) -> float:
    """Prefill of each prompt once, every sample's cache read for every token, and the weights read for the longest.

    2 N p t_p / (G F) + n p t_r (t_p + t_r / 2) (4 L k) / (G B) + t_max 2 N / (P B)
    for p prompts with n samples each of t_p prompt and t_r response tokens, t_max of the longest.
    """
    prefill = log_prob_flop(shape.parameters, prompts * prompt_tokens) / (gpus * flops)
    cache = kv_cache(shape, 1, 1) * prompts * samples * response_tokens * (prompt_tokens + response_tokens / 2)
    weights = longest * 2 * shape.parameters / (tensor_parallel * bandwidth)
    return prefill + cache / (gpus * bandwidth) + weights


def transfer_seconds(parameters: int) -> float:
    """4 N bytes from the trainer to each replica of vLLM."""
    return 4 * parameters / TRANSFER


def swap_seconds(bytes_moved: float) -> float:
    """Over the link to main memory, one way."""
    return bytes_moved / HOST_LINK


def host_adam_seconds(parameters: int, ranks: int, mini_batches: int) -> float:
    """28 N / R bytes through the host's memory for each optimizer step on the CPU."""
    return mini_batches * ADAM_TRAFFIC * parameters / ranks / HOST_LINK
