"""`device=cpu_vllm`: what it sets, and its refusal where vLLM is not installed (tests/vllm trains with it)."""

import importlib.util

import pytest
from hydra import compose, initialize_config_dir

from rl.common.errors import UserError
from verl.dph.config.program import CONFIG_DIR
from verl.dph.sampling.rollout_engine import check_platform


@pytest.fixture
def config():
    with initialize_config_dir(str(CONFIG_DIR), version_base=None):
        return compose("dph_trainer", ["device=cpu", "device=cpu_vllm"])


def test_it_is_the_cpu_with_another_rollout(config):
    rollout = config.actor_rollout_ref.rollout
    assert config.trainer.device == "cpu" and config.actor_rollout_ref.actor.strategy == "fsdp2"
    assert rollout.name == "vllm" and rollout.dtype == "float32" and rollout.enforce_eager
    # vLLM on a CPU cannot put anything away
    assert not rollout.free_cache_engine and not rollout.enable_sleep_mode


def test_without_vllm_it_is_refused_in_a_sentence(config, monkeypatch):
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    assert importlib.util.find_spec("vllm") is None  # else this belongs to tests/vllm
    with pytest.raises(UserError, match="rollout.name=vllm needs vLLM.*make install-vllm"):
        check_platform(config)
