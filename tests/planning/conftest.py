import pytest

from rl.configuration.run import run_of
from rl.planning.run_settings import RunSettings, run_settings


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """No settings from outside, and the paper's GPUs whatever this machine has."""
    for name in ("PLAN", "DEVICE", "NNODES", "GPUS_PER_NODE", "MODEL_PATH", "OFFLOAD", "SETTINGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GPU_TYPE", "a800")


@pytest.fixture
def llama_sql(values) -> RunSettings:
    """js_kl.sh on 8 GPUs, with the settings that the script has if no plan is made."""
    return run_settings("verl.dph.main", values)


@pytest.fixture
def values(monkeypatch) -> dict:
    """Every setting of that run by its full name."""
    monkeypatch.setenv("GPUS_PER_NODE", "8")
    monkeypatch.setenv("DEVICE", "cuda")
    attention = "+actor_rollout_ref.model.override_config.attn_implementation=flash_attention_2"
    return run_of("scripts/llama/js_kl.sh", ["run", attention]).values
