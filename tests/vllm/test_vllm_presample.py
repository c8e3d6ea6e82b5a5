"""The pre-sampler on vLLM's CPU build: every sample once, with the log-probs of the model that it names."""

import os
import sys

import pytest
import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from rl.cluster.scorer import temporary_scorer
from rl.data.sample_file import read_metadata, read_samples
from rl.data.sample_summary import summarize
from rl.demo.experiment import scorer_config
from tests.programs import output_of

N, PROMPTS, MAX_RESPONSE = 4, 4, 48


@pytest.fixture(scope="module")
def samples(task, random_model):
    path = task.parent / "generate_data" / "0.jsonl"
    with temporary_scorer(scorer_config(), task / "databases", task.parent / "scorer.log") as address:
        settings = {
            "device": "cpu_vllm",
            "actor_rollout_ref.model.path": random_model,
            "actor_rollout_ref.rollout.top_p": 1.0,
            "data.train_files": task / "train.parquet",
            "data.max_prompt_length": 40,
            "data.max_response_length": MAX_RESPONSE,
            "presample.n": N,
            "presample.output": path,
            "reward.custom_reward_function.reward_kwargs.scorer": address,
        }
        command = [sys.executable, "-m", "verl.dph.presample", *(f"{key}={value}" for key, value in settings.items())]
        environment = os.environ | {"VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": "1", "VERBOSE": "1"}
        said = output_of(command, environment=environment, cwd=task.parent, timeout=540)
    assert str(summarize(path)) in said
    return path


@pytest.mark.timeout(600)
def test_every_sample_is_drawn_once_with_the_models_log_probs(samples, random_model):
    records = list(read_samples(samples))
    assert len(records) == N * PROMPTS == N * read_metadata(samples).rows
    assert len({tuple(record.response_ids) for record in records}) == len(records)
    model, tokenizer = LlamaForCausalLM.from_pretrained(random_model), AutoTokenizer.from_pretrained(random_model)
    for record in records:
        prompt = torch.tensor(tokenizer(record.input, add_special_tokens=False)["input_ids"])
        response = torch.tensor(record.response_ids)
        with torch.no_grad():
            logits = model(torch.cat([prompt, response])[None]).logits[0, len(prompt) - 1 : -1]
        expected = logits.log_softmax(-1).gather(1, response[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(record.response_log_probs), expected, atol=1e-4, rtol=0)
        assert record.truncated == (record.response_ids[-1] != tokenizer.eos_token_id)
