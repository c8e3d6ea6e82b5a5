"""Generation with models of other shapes: their log-probabilities are those of a plain forward pass."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from verl.dph.cpu.generation import Generation, Request
from verl.dph.cpu.sampling import SamplingParams, stable_key, uniforms

VOCABULARY = 40
COMMON = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_attention_heads": 4, "bos_token_id": 1, "eos_token_id": 1}
LAYERS = {"num_hidden_layers": 2, "num_key_value_heads": 2, "intermediate_size": 48, "pad_token_id": 0, "head_dim": 8}
SHAPES = {
    "qwen2": COMMON | LAYERS,
    "qwen3": COMMON | LAYERS,
    "gpt2": COMMON | {"n_layer": 2, "n_positions": 64},  # learned positions
    "bloom": COMMON | {"n_layer": 2},  # takes no position ids
    "mistral": COMMON | LAYERS | {"sliding_window": 5},  # every layer forgets
    "gemma2": COMMON | LAYERS | {"sliding_window": 5},  # every other layer forgets
    "qwen3_moe": COMMON | LAYERS | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    # attention beside a recurrent state
    "falcon_h1": COMMON | LAYERS | {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8},
}


@pytest.mark.parametrize("model_type", SHAPES)
def test_log_probs_equal_those_of_a_plain_forward_pass(model_type):
    torch.manual_seed(0)
    config = AutoConfig.for_model(model_type, initializer_range=0.2, **SHAPES[model_type])
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    prompts = [[5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15], [20], [5, 6, 7]]
    requests = [
        Request(prompt, SamplingParams(max_tokens=6 + 3 * n), frozenset(), uniforms(stable_key(n)))
        for n, prompt in enumerate(prompts)
    ]
    generation = Generation(model, requests, VOCABULARY)
    while generation.unfinished:
        generation.step()
    for request in requests:
        ids = torch.tensor([[*request.prompt_ids, *request.token_ids]])
        with torch.inference_mode():
            log_probs = model(input_ids=ids).logits[0, len(request.prompt_ids) - 1 : -1].log_softmax(-1)
        expected = log_probs.gather(1, torch.tensor(request.token_ids)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(request.log_probs), expected, rtol=0, atol=2e-5)
