"""torch's attention for decoding in half precision on a CPU, without copies of the keys and values.

With grouped-query attention and a mask, transformers repeats keys and values for every query head before it calls
torch. With one query per head, the heads of a group can be the queries of their one key-value head instead. The result
is the same, for 32 rows of SmolLM2-135M and 100 columns in bfloat16 in a fifth of the time.
"""

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "dph_folded_sdpa"


def folded_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **settings,
) -> tuple[torch.Tensor, None]:
    """transformers' sdpa; if there is one query per head, all heads of a group are one head's queries.

    Args:
        module: the attention layer.
        query: [B, H, Q, D].
        key, value: [B, K, L, D]; K divides H.
        attention_mask: [B, 1, Q, L], or None.
        settings: of transformers' sdpa_attention_forward.

    Returns:
        [B, Q, H, D], and None.
    """
    rows, heads, queries, size = query.shape
    groups = heads // key.shape[1]
    if queries > 1 or groups == 1:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **settings)
    mask = None if attention_mask is None else attention_mask.expand(-1, -1, groups, -1)
    output = torch.nn.functional.scaled_dot_product_attention(
        query.view(rows, -1, groups, size), key, value, attn_mask=mask, scale=settings.get("scaling")
    )
    return output.reshape(rows, 1, heads, size), None


def register() -> str:
    """Make the attention known to transformers; return its name."""
    AttentionInterface.register(NAME, folded_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    return NAME
