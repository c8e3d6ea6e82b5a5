"""`device=cpu_vllm` where vLLM is not installed (tests/vllm trains with it)."""

import importlib.util

import pytest
from hydra import compose, initialize_config_dir

from rl.common.errors import UserError
from verl.dph.config.program import CONFIG_DIR
from verl.dph.sampling.rollout_engine import check_platform


def test_without_vllm_it_is_rejected_in_a_sentence(monkeypatch):
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    with initialize_config_dir(str(CONFIG_DIR), version_base=None):
        config = compose("dph_trainer", ["device=cpu", "device=cpu_vllm"])
    assert config.trainer.device == "cpu" and config.actor_rollout_ref.rollout.name == "vllm"
    assert importlib.util.find_spec("vllm") is None  # else this belongs to tests/vllm
    with pytest.raises(UserError, match="rollout.name=vllm needs vLLM.*make install-vllm"):
        check_platform(config)
