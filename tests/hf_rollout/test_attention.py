"""Attention while decoding in half precision: the same as transformers', without repeated keys and values."""

from types import SimpleNamespace

import pytest
import torch
from transformers.integrations import sdpa_attention

from verl.dph.hf_rollout.attention import folded_attention

ROWS, KV_HEADS, GROUPS, COLUMNS, SIZE = 5, 3, 3, 11, 16
LAYER = SimpleNamespace(num_key_value_groups=GROUPS, is_causal=True)


def case(queries):
    g = torch.Generator().manual_seed(queries)
    query = torch.randn(ROWS, KV_HEADS * GROUPS, queries, SIZE, generator=g).bfloat16()
    key, value = (torch.randn(ROWS, KV_HEADS, COLUMNS, SIZE, generator=g).bfloat16() for _ in range(2))
    mask = torch.ones(ROWS, 1, queries, COLUMNS, dtype=torch.bool)
    mask[1, ..., :4] = False  # padded on the left
    return query, key, value, mask


@pytest.mark.parametrize("queries", [1, 2])
@pytest.mark.parametrize("masked", [True, False])
def test_it_is_transformers_attention(queries, masked):
    query, key, value, mask = case(queries)
    arguments = (LAYER, query, key, value, mask if masked else None)
    found, expected = (
        of(*arguments, scaling=0.3)[0] for of in (folded_attention, sdpa_attention.sdpa_attention_forward)
    )
    torch.testing.assert_close(found, expected)
