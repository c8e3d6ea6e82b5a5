"""Which attention a run on GPUs gets by what is installed, what it says of it, and the tokens of a micro-batch."""

import importlib.util
import logging
import sys

import pytest
import verl.utils.model
from transformers import LlamaForTokenClassification

from tests.training.conftest import ACTOR, MODEL
from verl.dph.config import attention

TOKENS = f"{ACTOR}ppo_max_token_len_per_gpu"
ATTENTION = f"+{MODEL}override_config.attn_implementation"
FLOAT32 = f"{ACTOR}fsdp_config.mixed_precision.param_dtype"
LONGEST = 900
WORKS, BROKEN = "flash_attn_varlen_func = print", "raise ImportError('undefined symbol: _ZN3c105ErrorC2')\nmore = 1"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """installed(SOURCE): flash_attn is there; installed(): it is not."""

    def install(source=None):
        (tmp_path / "flash_attn").mkdir()
        (tmp_path / "flash_attn" / "__init__.py").write_text(source or "")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "flash_attn", raising=False)
        monkeypatch.setattr(attention, "find_spec", importlib.util.find_spec if source else lambda name: None)

    yield install
    if str(tmp_path) in str(getattr(sys.modules.get("flash_attn"), "__file__", "")):
        del sys.modules["flash_attn"]


@pytest.fixture
def on_gpus(run):
    """The run's settings on GPUs, with packed rows of at most LONGEST tokens."""

    def config(**changes):
        packed = {f"{MODEL}use_remove_padding": True, "data.max_prompt_length": LONGEST - 100}
        packed |= {"trainer.device": "cuda", "data.max_response_length": 100}
        found = run.config(packed | changes)
        for model in (found.actor_rollout_ref.model, found.critic.model):  # as device=cuda leaves them
            if ATTENTION not in changes:
                model.override_config = {}
        actor, ref = found.actor_rollout_ref.actor, found.actor_rollout_ref.ref
        for engine in (actor.fsdp_config, ref.fsdp_config, found.critic.fsdp):
            engine.mixed_precision.param_dtype = changes.get(FLOAT32, "bf16")
        return found

    return config


CHOICES = [
    (WORKS, "flash_attention_2", "Attention: flash_attention_2."),
    (BROKEN, "sdpa", "because flash-attn cannot be imported (undefined symbol: _ZN3c105ErrorC2)."),
    (None, "sdpa", "Attention: sdpa, because flash-attn is not installed."),
]


@pytest.mark.parametrize(("source", "expected", "sentence"), CHOICES)
def test_flash_attention_is_taken_if_it_is_there_and_said(installed, on_gpus, caplog, source, expected, sentence):
    installed(source)
    config = on_gpus()
    with caplog.at_level(logging.INFO):
        attention.complete(config)
    models = (config.actor_rollout_ref.model, config.critic.model)
    assert {model.override_config.attn_implementation for model in models} == {expected}
    (line,) = caplog.messages
    assert sentence in line and "\n" not in line
    assert config.actor_rollout_ref.actor.ppo_max_token_len_per_gpu == (LONGEST if expected == "sdpa" else 16384)


def test_a_row_is_never_longer_than_a_micro_batch(installed, on_gpus):
    """This also holds for the models that take the actor's limit by interpolation."""
    installed(WORKS)
    config = on_gpus(**{"data.max_prompt_length": 30_000})
    attention.complete(config)
    actor, rollout, ref = (config.actor_rollout_ref[name] for name in ("actor", "rollout", "ref"))
    limits = [actor.ppo_max_token_len_per_gpu, rollout.log_prob_max_token_len_per_gpu]
    limits += [ref.log_prob_max_token_len_per_gpu, config.critic.ppo_infer_max_token_len_per_gpu]
    assert limits == [30_100] * 4
    short = on_gpus(**{ATTENTION: "sdpa", "data.max_prompt_length": 20, "data.max_response_length": 10})
    attention.complete(short)
    assert short.actor_rollout_ref.actor.ppo_max_token_len_per_gpu == 128  # verl's padding


def test_what_is_configured_stays(installed, on_gpus, caplog):
    installed(WORKS)
    config = on_gpus(**{ATTENTION: "sdpa", TOKENS: 1000})
    config.critic.model.override_config.attn_implementation = "eager"
    with caplog.at_level(logging.INFO):
        attention.complete(config)
    assert config.actor_rollout_ref.model.override_config.attn_implementation == "sdpa"
    assert config.critic.model.override_config.attn_implementation == "eager"
    assert config.actor_rollout_ref.actor.ppo_max_token_len_per_gpu == 1000
    assert caplog.messages == ["Attention: sdpa, because it is configured."]
    padded = on_gpus(**{ATTENTION: "sdpa", f"{MODEL}use_remove_padding": False})
    attention.complete(padded)
    assert padded.actor_rollout_ref.actor.ppo_max_token_len_per_gpu == 16384


def test_float32_is_not_for_flash_attention(installed, on_gpus, caplog):
    """A store without bfloat16's rounding needs float32: on a GPU the kernel would raise in the first forward pass."""
    installed(WORKS)
    config = on_gpus(**{FLOAT32: "fp32"})
    with caplog.at_level(logging.INFO):
        attention.complete(config)
    assert config.actor_rollout_ref.model.override_config.attn_implementation == "sdpa"
    because = "Attention: sdpa, because flash attention does not support float32 (actor_rollout_ref.actor.fsdp_config."
    assert caplog.messages[0].startswith(f"{because}mixed_precision.param_dtype=fp32).")


def test_a_critic_has_the_attention_of_its_config(random_model, monkeypatch):
    """verl's own loader asks for flash attention."""
    verls = verl.utils.model.load_valuehead_model
    monkeypatch.setattr(verl.utils.model, "load_valuehead_model", verls)  # is put back after the test
    attention.use_configured_attention(verl.utils.model)
    import torch
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(random_model, attn_implementation="sdpa")
    config.num_labels = 1
    model = verl.utils.model.load_valuehead_model(random_model, torch.float32, config, False)
    assert isinstance(model, LlamaForTokenClassification) and model.config._attn_implementation == "sdpa"
