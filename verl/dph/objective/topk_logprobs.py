"""Next-token distributions cut down to k tokens and one bucket for all others, from logits, in chunks (torch only).

Shapes: T tokens of a packed micro-batch, V vocabulary, N tokens among the T at which the k tokens are given, K = k.
At most a chunk of the logits is in float32 at a time.
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


def largest(logits: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The k likeliest tokens of each position.

    Args:
        logits: (N, V), any float type.

    Returns:
        ids (N, k) int32 and their log-probs (N, k) float16, likeliest first; the log of the probability of all other
        tokens (N,) float16, -inf where k is the vocabulary.
    """
    parts = []
    for rows in chunks(logits):
        x = logits[rows].float()
        top, ids = x.topk(k, dim=-1)
        lse = x.logsumexp(-1, keepdim=True)
        rest = x.scatter(1, ids, -torch.inf).logsumexp(-1, keepdim=True)
        parts.append((ids.int(), top - lse, (rest - lse)[:, 0]))
    # Converted last, because torch.cat of float16 fails under autocast to bf16.
    ids, log_probs, rest = (torch.cat(part) for part in zip(*parts, strict=True))
    return ids, log_probs.half(), rest.half()


def reference(top_log_probs: torch.Tensor, rest_log_probs: torch.Tensor) -> torch.Tensor:
    """(N, K + 1) float32 log-probs of the stored distribution, the bucket last; they sum to 1 again after float16."""
    stored = torch.cat([top_log_probs.float(), rest_log_probs.float()[:, None]], dim=-1)
    return stored.log_softmax(-1)


class LogProbs(torch.autograd.Function):
    """Log-probs of the labels at all positions and of K tokens and the rest at some, in one pass over the logits.

    One function for both, so that there is one gradient of the logits (T x V): two would each make a gradient of this
    size, and their sum a third.
    """

    @staticmethod
    def forward(ctx, logits, labels, positions, ids, overwrite):
        """
        Args:
            logits: (T, V), any float type.
            labels: (T,) int64.
            positions: (N,) int64, increasing.
            ids: (N, K) integer.
            overwrite: whether backward may write the gradient into the logits; nothing else may need them then.

        Returns:
            log_probs (T,) of the labels and log_q (N, K + 1) of the ids and of all other tokens, float32.
        """
        log_probs = logits.new_empty(len(logits), dtype=torch.float32)
        log_q = log_probs.new_empty(len(ids), ids.shape[1] + 1)
        for rows, given in _chunks_with_given(logits, positions):
            x = logits[rows].log_softmax(-1, dtype=torch.float32)
            log_probs[rows] = x.gather(1, labels[rows, None])[:, 0]
            if given.start < given.stop:
                x, top = x[positions[given] - rows.start], ids[given].long()
                log_q[given, :-1] = x.gather(1, top)
                log_q[given, -1] = x.scatter_(1, top, -torch.inf).logsumexp(-1)
        ctx.save_for_backward(logits, labels, positions, ids, log_q)
        ctx.overwrite = overwrite
        return log_probs, log_q

    @staticmethod
    def backward(ctx, grad_log_probs, grad_log_q):
        """d log q_i / d x_v = [i = v] - softmax_v; of the rest: [v among them] softmax_v / q_rest - softmax_v."""
        logits, labels, positions, ids, log_q = ctx.saved_tensors
        total = grad_log_probs.index_add(0, positions, grad_log_q.sum(-1))
        gradient = logits.detach() if ctx.overwrite else torch.empty_like(logits)
        for rows, given in _chunks_with_given(logits, positions):
            g = logits[rows].softmax(-1, dtype=torch.float32).mul_(-total[rows, None])
            g.scatter_add_(1, labels[rows, None], grad_log_probs[rows, None])
            if given.start < given.stop:
                at, top = positions[given] - rows.start, ids[given].long()
                # Within the rest as exp(log softmax - log q_rest), which is at most 1: a quotient would underflow.
                rest = logits[positions[given]].log_softmax(-1, dtype=torch.float32).sub_(log_q[given, -1:]).exp_()
                # An empty rest (K is the vocabulary) has log q = -inf and no gradient.
                rest.mul_(grad_log_q[given, -1:]).masked_fill_(torch.isneginf(log_q[given, -1:]), 0.0)
                g.index_add_(0, at, rest.scatter_(1, top, grad_log_q[given, :-1]))
            gradient[rows] = g.to(gradient.dtype)
        return gradient, None, None, None, None


def log_probs_of(logits: torch.Tensor, labels: torch.Tensor, inplace_backward: bool = True) -> torch.Tensor:
    """Log-probs of the labels alone; replaces verl's logprobs_from_logits in our workers (training/actor_worker.py).

    Without flash-attn's cross-entropy, verl's function goes through the tokens one by one in Python, and keeps a
    float32 log-softmax of bfloat16 logits for the backward pass.

    Args:
        logits: (T, V), any float type.
        labels: (T,) int64.
        inplace_backward: whether backward may write the gradient into the logits.

    Returns:
        (T,) float32.
    """
    none = labels.new_empty(0)
    return LogProbs.apply(logits, labels, none, none[:, None], inplace_backward)[0]


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


def _chunks_with_given(logits: torch.Tensor, positions: torch.Tensor):
    """Pairs of a slice of the T positions and the slice of the N positions in it."""
    slices = list(chunks(logits))
    ends = torch.searchsorted(positions, torch.tensor([s.stop for s in slices], device=positions.device)).tolist()
    return zip(slices, (slice(a, b) for a, b in zip([0, *ends], ends, strict=False)), strict=True)
