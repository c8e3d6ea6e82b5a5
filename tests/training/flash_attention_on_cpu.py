"""Flash attention's place in transformers, with the kernel computed by torch: for verl's Ulysses without a GPU.

verl's Ulysses works in the call of the kernel: it wraps transformers' `_flash_attention_forward` and moves sequences to
heads before it and back after it (models/transformers/monkey_patch.py). Only the kernel below is ours.
"""

import torch
from transformers import AttentionInterface
from transformers.integrations import flash_attention
from verl.models.transformers import monkey_patch

# A name with "flash" in it would be loaded as a kernel.
NAME = "packed_attention"


def register() -> None:
    """Make the attention NAME known; verl puts Ulysses around it when it builds a model."""

    def attention(*args, **kwargs):
        return flash_attention.flash_attention_forward(*args, **kwargs)

    AttentionInterface.register(NAME, attention)
    monkey_patch._flash_attention_forward = packed_attention


def packed_attention(query, key, value, attention_mask, query_length, *, position_ids, softmax_scale, **kwargs):
    """Causal attention within each of the packed sequences, which begin where positions are 0.

    Args:
        query: (1, T, heads, dim); key, value: (1, T, heads or a divisor of it, dim).
        position_ids: (1, T).
    """
    sequence = (position_ids[0] == 0).cumsum(0)
    visible = (sequence[:, None] == sequence).tril()
    query, key, value = (part.transpose(1, 2) for part in (query, key, value))
    found = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=visible, scale=softmax_scale, enable_gqa=True
    )
    return found.transpose(1, 2)
