"""Memory of a GPU in one step of training, part by part, in bytes: estimates from verl's code.

docs/howto/plan.md has the formulas.

Symbols: N parameters, N_l of one layer; V vocabulary, d hidden size, L layers, a width of the queries, k of the keys,
m of the MLP's middle; T tokens of a micro-batch on a GPU; R ranks that share the parameters; b bytes of a number of the
parameters (4: float32).
"""

from rl.planning.model_shape import ModelShape

# CUDA contexts, NCCL's buffers: the trainer's. And, while vLLM sleeps, its context and what it does not give back.
CONTEXTS = 2.0e9
ASLEEP = 2.5e9
# vLLM's own needs besides weights and cache: activations and CUDA graphs.
VLLM_WORKSPACE = 2.5e9
# The one pass over the logits converts 64 MiB of them at a time (verl/dph/divergence/topk_logprobs.py): four buffers.
ONE_PASS = 4 * 4 * (1 << 24)


def parameter_shard(parameters: int, ranks: int, number: int = 4) -> float:
    """b N / R: parameters, and as much again for their gradients."""
    return number * parameters / ranks


def adam_shard(parameters: int, ranks: int, number: int = 4) -> float:
    """2 b N / R: Adam's two moments."""
    return 2 * number * parameters / ranks


def layer_inputs(shape: ModelShape, tokens: int) -> int:
    """2 T d L: the bf16 inputs of all layers, which gradient checkpointing keeps."""
    return 2 * tokens * shape.hidden * shape.layers


def logits(shape: ModelShape, tokens: int) -> int:
    """2 T V: bf16; their gradient is written into them."""
    return 2 * tokens * shape.vocabulary


def gathered(shape: ModelShape) -> int:
    """2 V d + 4 N_l: in bf16, the output layer, which stays gathered, a layer, and the next one."""
    return 2 * shape.embedding_parameters + 4 * shape.layer_parameters


def in_flight(shape: ModelShape) -> int:
    """4 V d + 10 N_l: `gathered`, a gradient of the output layer (2 V d) and of a layer in bf16 and float32 (6 N_l).

    FSDP2 reduces the output layer's gradient only at the end of the backward pass, with the root's other parameters.
    """
    return gathered(shape) + 2 * shape.embedding_parameters + 6 * shape.layer_parameters


def end_of_backward(shape: ModelShape) -> int:
    """4 V d for each of embedding and output layer, gathered and with gradient, and 4 V d: one of these in float32."""
    return (2 + (not shape.tied)) * 4 * shape.embedding_parameters


def layer_activations(shape: ModelShape, tokens: int) -> int:
    """T (16 d + 4 a + 4 k + 12 m): what one layer's recomputation saves, with the gradients of its MLP.

    Of each of the two norms a float32 input (4 d) and bf16 input and output (4 d); queries and attention's output, keys
    and values; of the MLP four products and the gradients of two.
    """
    per_token = 16 * shape.hidden + 4 * shape.attention_width + 4 * shape.kv_width + 12 * shape.intermediate
    return tokens * per_token


def dense_mask(tokens: int) -> int:
    """3 T^2: sdpa's mask over packed rows, as booleans (1) and in bf16 for the kernel (2)."""
    return 3 * tokens**2


def float_log_softmax(shape: ModelShape, tokens: int) -> int:
    """4 T V: the float32 log-softmax of verl's log-probs where flash-attn's cross-entropy is missing."""
    return 4 * tokens * shape.vocabulary


def eager_entropy(shape: ModelShape, tokens: int) -> int:
    """8 T V: two float32 copies of the logits, where torch.compile does not fuse the entropy of the old log-probs."""
    return 8 * tokens * shape.vocabulary


def engine_weights(shape: ModelShape, tensor_parallel: int) -> float:
    """2 N / P: vLLM's bf16 weights on each of P GPUs of a replica."""
    return 2 * shape.parameters / tensor_parallel


def kv_cache(shape: ModelShape, tokens: int, tensor_parallel: int) -> float:
    """4 L k per token, over P GPUs: bf16 keys and values."""
    return 4 * shape.layers * shape.kv_width * tokens / tensor_parallel


def largest_weight(shape: ModelShape, number: int = 4) -> int:
    """b V d: the embedding, gathered on its own on its way to vLLM."""
    return number * shape.embedding_parameters


def top_k_bytes_per_token(k: int) -> int:
    """6 k + 2: an int32 id and a float16 log-prob for each of k tokens, a float16 for the rest."""
    return 6 * k + 2


def top_k_bytes(k: int, rows: int, tokens: int) -> int:
    """Of `rows` D_pef rows with `tokens` response tokens each, in the store or on their way through TransferQueue."""
    return rows * tokens * top_k_bytes_per_token(k)
