"""Log-probs and entropies from logits, in chunks (torch only).

Shapes: T tokens of a packed micro-batch, V vocabulary. At most a chunk of the logits is in float32 at a time.
"""

import torch

# float32 numbers of one chunk. On a GPU 64 MiB, that is, 128 tokens of a 128k vocabulary, in few large kernels; on a
# CPU 4 MiB, which stay in its cache (benchmarks/log_probs.py).
CHUNK_ELEMENTS = {"cpu": 1 << 20, "cuda": 1 << 24}


def chunks(logits: torch.Tensor):
    """Slices of the rows of logits (T, V), each of at most CHUNK_ELEMENTS numbers."""
    tokens, vocabulary = logits.shape
    size = max(1, CHUNK_ELEMENTS.get(logits.device.type, CHUNK_ELEMENTS["cuda"]) // vocabulary)
    return (slice(start, min(start + size, tokens)) for start in range(0, tokens, size))


class LogProbs(torch.autograd.Function):
    """Log-probs of the labels, in one pass over the logits."""

    @staticmethod
    def forward(ctx, logits, labels, overwrite):
        """
        Args:
            logits: (T, V), any float type.
            labels: (T,) int64.
            overwrite: whether backward may write the gradient into the logits; nothing else may need them then.

        Returns:
            (T,) float32.
        """
        log_probs = logits.new_empty(len(logits), dtype=torch.float32)
        for rows in chunks(logits):
            x = logits[rows].log_softmax(-1, dtype=torch.float32)
            log_probs[rows] = x.gather(1, labels[rows, None])[:, 0]
        ctx.save_for_backward(logits, labels)
        ctx.overwrite = overwrite
        return log_probs

    @staticmethod
    def backward(ctx, grad):
        """d log p_label / d x_v = [label = v] - softmax_v."""
        logits, labels = ctx.saved_tensors
        gradient = logits.detach() if ctx.overwrite else torch.empty_like(logits)
        for rows in chunks(logits):
            g = logits[rows].softmax(-1, dtype=torch.float32).mul_(-grad[rows, None])
            g.scatter_add_(1, labels[rows, None], grad[rows, None])
            gradient[rows] = g.to(gradient.dtype)
        return gradient, None, None


def log_probs_of(logits: torch.Tensor, labels: torch.Tensor, inplace_backward: bool = True) -> torch.Tensor:
    """Log-probs of the labels; replaces verl's logprobs_from_logits in our workers (training/actor_worker.py).

    Without flash-attn's cross-entropy, verl's function goes through the tokens one by one in Python, and keeps a
    float32 log-softmax of bfloat16 logits for the backward pass.

    Args:
        logits: (T, V), any float type.
        labels: (T,) int64.
        inplace_backward: whether backward may write the gradient into the logits.

    Returns:
        (T,) float32.
    """
    return LogProbs.apply(logits, labels, inplace_backward)


class Entropy(torch.autograd.Function):
    """Entropy of softmax(logits), in chunks."""

    @staticmethod
    def forward(ctx, logits):
        """(T,) float32 in nats, from logits (T, V) of any float type."""
        entropy = logits.new_empty(len(logits), dtype=torch.float32)
        for rows in chunks(logits):
            x = logits[rows].log_softmax(-1, dtype=torch.float32)
            entropy[rows] = -(x.exp() * x).sum(-1)
        ctx.save_for_backward(logits, entropy)
        return entropy

    @staticmethod
    def backward(ctx, grad_entropy):
        """d H / d x_v = -softmax_v (log softmax_v + H); no gradient at all if only the value is used."""
        if not grad_entropy.any():
            return None
        logits, entropy = ctx.saved_tensors
        gradient = torch.empty_like(logits)
        for rows in chunks(logits):
            x = logits[rows].log_softmax(-1, dtype=torch.float32)
            g = x.exp().mul_(x.add_(entropy[rows, None])).mul_(-grad_entropy[rows, None])
            gradient[rows] = g.to(gradient.dtype)
        return gradient


def entropy_of(logits: torch.Tensor) -> torch.Tensor:
    """Entropy of each position; replaces verl's entropy_from_logits in our workers on a CPU (training/actor_worker.py).

    verl's function keeps float32 copies of all logits for a backward pass that runs even if its weight (entropy_coeff)
    is 0.

    Args:
        logits: (..., V), any float type.

    Returns:
        (...) float32, in nats.
    """
    return Entropy.apply(logits.flatten(0, -2)).unflatten(0, logits.shape[:-1])
