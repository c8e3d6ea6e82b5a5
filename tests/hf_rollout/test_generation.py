"""A batch's generation on a real (tiny, random) model."""

import copy
from collections import Counter

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, LlamaForCausalLM

from verl.dph.hf_rollout.generation import Generation, Request
from verl.dph.hf_rollout.sampling import SamplingParams, stable_key, uniforms

VOCABULARY = 32
EOS = frozenset({1})
PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13, 14], [5, 6, 7], [20], [30, 4, 9, 9, 9]]

# Models of other shapes.
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


def request(prompt, seed=0, stop_ids=EOS, **params) -> Request:
    params.setdefault("max_tokens", 12)
    return Request(prompt, SamplingParams(**params), stop_ids, uniforms(stable_key(seed, prompt)))


def answer(model, requests, sampled_vocabulary=VOCABULARY) -> list[Request]:
    generation = Generation(model, requests, sampled_vocabulary)
    finished = []
    while generation.unfinished:
        finished += generation.step()
    assert Counter(map(id, finished)) == Counter(map(id, requests)), "each request is reported once"
    return requests


def plain_log_probs(model, answered: Request, dtype=torch.float64) -> torch.Tensor:
    """Log-probabilities of the response from one forward pass over prompt and response, without a cache."""
    model = copy.deepcopy(model).to(dtype)
    ids = torch.tensor([[*answered.prompt_ids, *answered.token_ids]], device=model.device)
    with torch.inference_mode():
        logits = model(input_ids=ids).logits[0, len(answered.prompt_ids) - 1 : -1]
    temperature = answered.params.temperature or 1.0
    log_probs = (logits / temperature).log_softmax(-1)
    return log_probs.gather(1, ids[0, len(answered.prompt_ids) :, None])[:, 0].float().cpu()


@pytest.mark.parametrize("params", [{}, {"temperature": 0.6, "top_p": 0.8, "top_k": 6}, {"temperature": 0.0}])
def test_log_probs_equal_those_of_a_plain_forward_pass(tiny_model, params):
    for answered in answer(tiny_model, [request(prompt, seed, **params) for seed, prompt in enumerate(PROMPTS)]):
        torch.testing.assert_close(
            torch.tensor(answered.log_probs), plain_log_probs(tiny_model, answered), rtol=0, atol=1e-5
        )


@pytest.mark.parametrize("model_type", SHAPES)
def test_log_probs_of_other_architectures_equal_those_of_a_plain_forward_pass(model_type):
    torch.manual_seed(0)
    config = AutoConfig.for_model(model_type, initializer_range=0.2, **SHAPES[model_type])
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    requests = [request(prompt, n, frozenset(), max_tokens=6 + 3 * n) for n, prompt in enumerate(PROMPTS)]
    for answered in answer(model, requests):
        found, expected = torch.tensor(answered.log_probs), plain_log_probs(model, answered, torch.float32)
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)


def test_log_probs_count_the_padded_vocabulary_but_never_sample_it(tmp_path, make_tiny_model):
    path = make_tiny_model(tmp_path, padded_vocabulary=48)
    model = LlamaForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    requests = [request(prompt, seed, max_tokens=40) for seed in range(5) for prompt in PROMPTS]
    for answered in answer(model, requests, sampled_vocabulary=32):
        assert max(answered.token_ids) < 32
        torch.testing.assert_close(
            torch.tensor(answered.log_probs), plain_log_probs(model, answered), rtol=0, atol=1e-5
        )


def test_temperature_zero_is_transformers_greedy_search(tiny_model):
    for answered in answer(tiny_model, [request(prompt, temperature=0.0, max_tokens=20) for prompt in PROMPTS]):
        prompt = torch.tensor([answered.prompt_ids], device=tiny_model.device)
        reference = tiny_model.generate(
            prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=20
        )
        assert answered.token_ids == reference[0, len(answered.prompt_ids) :].tolist()


def test_an_answer_does_not_depend_on_its_batch(tiny_model):
    def mixed():
        return [
            request(PROMPTS[0], 1, max_tokens=30),
            request(PROMPTS[1], 2, temperature=0.7, top_p=0.9, max_tokens=3),
            request(PROMPTS[2], 3, max_tokens=25, stop_ids=frozenset()),
            request(PROMPTS[3], 4, temperature=0.0, max_tokens=8),
            request(PROMPTS[4], 5, top_k=3, max_tokens=17),
            request(PROMPTS[0], 6, max_tokens=30, stop_ids=frozenset()),
        ]

    together = answer(tiny_model, mixed())
    alone = [answer(tiny_model, [one])[0] for one in mixed()]
    assert [one.token_ids for one in together] == [one.token_ids for one in alone]
    assert together[0].token_ids[:3] != together[5].token_ids[:3], "the same prompt with other random numbers"


def test_logits_that_are_not_a_number_raise(tiny_model_path):
    model = LlamaForCausalLM.from_pretrained(tiny_model_path, dtype=torch.float32).eval()
    with torch.no_grad():
        model.model.norm.weight.fill_(float("nan"))
    with pytest.raises(FloatingPointError):
        answer(model, [request([5])])
