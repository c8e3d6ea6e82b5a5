"""The random choice of tokens, against exact probabilities and brute force."""

import math
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from verl.dph.hf_rollout.sampling import SamplingParams, draw, restrict, stable_key, uniforms

REQUEST = {"default_max_tokens": 16, "room": 100, "ignore_eos": False}

weight_rows = st.lists(st.integers(0, 20), min_size=1, max_size=12).filter(any)


EDGES = st.sampled_from([0.0, 1e-300, 0.3, 0.999, 1 - 2**-53])


@given(weight_rows, EDGES | st.floats(0, 1, exclude_max=True))
def test_draw_inverts_the_distribution_function(device, row, uniform):
    weights, at = (torch.tensor([x], dtype=torch.float64, device=device) for x in (row, uniform))
    token = int(draw(weights, at))
    before, share = sum(row[:token]), uniform * sum(row)
    assert before <= share or math.isclose(before, share)
    assert share <= before + row[token] and row[token] > 0


def restrict_by_hand(row: list[int], top_k: int, top_p: float) -> list[int]:
    order = sorted(range(len(row)), key=lambda index: (-row[index], index))
    order = order[:top_k] if top_k > 0 else order
    total, reached, kept = sum(row[index] for index in order), 0, set()
    for index in order:
        if top_p < 1 and reached >= top_p * total:
            break
        kept.add(index)
        reached += row[index]
    return [value if index in kept else 0 for index, value in enumerate(row)]


@settings(max_examples=300)
@given(weight_rows, st.integers(-1, 13), st.sampled_from([0.125, 0.25, 0.5, 0.75, 0.875, 1.0]))
def test_top_k_and_top_p_against_their_definition(device, row, top_k, top_p):
    weights, top_p_of_row = (torch.tensor([x], dtype=torch.float64, device=device) for x in (row, top_p))
    kept = restrict(weights, torch.tensor([top_k], device=device), top_p_of_row)
    assert kept[0].tolist() == restrict_by_hand(row, top_k, top_p)


def test_random_numbers_are_the_same_everywhere():
    assert stable_key("seed", 3, [1, 2]) == 0xDB7ED0E3A2F6D76B8B146BB10134B18  # sha256 of '["seed",3,[1,2]]'
    assert list(islice(uniforms(7), 200)) == np.random.Generator(np.random.Philox(key=7)).random(200).tolist()


AS_VERLS_AGENT_LOOP_SENDS_IT = {"temperature": 0.7, "top_p": 0.9, "top_k": 5, "logprobs": True}


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (AS_VERLS_AGENT_LOOP_SENDS_IT | {"repetition_penalty": 1.0}, AS_VERLS_AGENT_LOOP_SENDS_IT),
        ({"max_tokens": 3}, {"max_tokens": 3}),
        ({"max_tokens": 500}, {"max_tokens": 100}),
        ({"logprobs": 0, "ignore_eos": True}, {"logprobs": True, "ignore_eos": True}),  # in vLLM's meaning
        ({"logprobs": None, "stop_token_ids": [3, 3]}, {"logprobs": False, "stop_token_ids": frozenset({3})}),
    ],
)
def test_parameters_as_they_are_read(sent, read):
    assert SamplingParams.from_request(sent, **REQUEST) == SamplingParams(**{"max_tokens": 16} | read)
