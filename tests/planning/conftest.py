import pytest

from rl.planning.run_settings import RunSettings, run_settings
from rl.planning.script_settings import script_run


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """No settings from outside, and the paper's GPUs whatever this machine has."""
    for name in ("PLAN", "DEVICE", "NNODES", "GPUS_PER_NODE", "MODEL_PATH", "OFFLOAD", "SETTINGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GPU_TYPE", "a800")


@pytest.fixture
def llama_sql() -> RunSettings:
    """js_kl.sh on 8 GPUs, with the settings that the script has if no plan is made."""
    variables = {"DEVICE": "cuda", "GPUS_PER_NODE": "8", "PYTHON": "no-python"}
    attention = "+actor_rollout_ref.model.override_config.attn_implementation=flash_attention_2"
    run = script_run(["scripts/llama/js_kl.sh", "run", attention], variables)
    return run_settings(run.program, run.values())
