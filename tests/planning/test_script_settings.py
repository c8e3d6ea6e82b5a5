"""What a launch script would start, as other programs see it."""

import pytest

from rl.common.errors import UserError
from rl.planning.script_settings import CHECKOUT, override_values, script_run


def test_a_script_s_run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    run = script_run(
        ["scripts/qwen/alpha.sh", "my_run", "0.02", "data.train_files='/a b/$x.parquet'", "trainer.nnodes=2"],
        {"MODEL_PATH": "/models/it's mine", "GPUS_PER_NODE": "4", "DEVICE": "cuda", "DPH_SCORER": "http://s:1"},
    )
    assert (run.script, run.program) == (CHECKOUT / "scripts/qwen/alpha.sh", "verl.dph.main")
    assert run.environment == {"DPH_SCORER": "http://s:1"}
    assert run.variables["SCORER_CONFIG"] == str(CHECKOUT / "rl/scorer/math.yaml")
    values = run.values()
    assert values["actor_rollout_ref.model.path"] == "/models/it's mine"
    assert (
        values["data.train_files"] == "/a b/$x.parquet" and values["actor_rollout_ref.actor.sft_loss_coeff"] == "0.02"
    )
    assert (values["trainer.nnodes"], values["trainer.n_gpus_per_node"]) == ("2", "4")


def test_a_path_from_here_and_the_environment_s_settings(monkeypatch):
    monkeypatch.chdir(CHECKOUT / "scripts" / "llama")
    for name, value in {"MODEL_PATH": "/models/mine", "DEVICE": "cpu", "PYTHON": "/some/python"}.items():
        monkeypatch.setenv(name, value)
    run = script_run(["grpo.sh", "--dry-run=config", "my_run"])
    assert (run.python, run.environment["VERL_PLATFORM"], run.values()["device"]) == ("/some/python", "cpu", "cpu")
    assert run.variables["MODEL_PATH"] == run.values()["actor_rollout_ref.model.path"] == "/models/mine"


def test_quotes_plus_and_options():
    overrides = ["a=1", "+a.b='x=y'", "--cfg", "job", 'c="[1]"', "d=['e']", "a=2", "~f"]
    assert override_values(overrides) == {"a": "2", "a.b": "x=y", "c": "[1]", "d": "['e']"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["scripts/llama/js_kl.sh", "0.2"], "NAME is '0.2', a number: the run's NAME comes first; usage: bash "),
        (["scripts/llama/js_kl.sh", "run", "TOTAL_STEPS=3"], "put it before bash, TOTAL_STEPS=3 bash "),
        (["scripts/llama/nothing.sh", "run"], "'scripts/llama/nothing.sh' is no launch script: give one of a checkout"),
        ([], "'' is no launch script"),
        (["tests/browser/install_chromium.sh"], "is no launch script"),
    ],
)
def test_the_script_s_own_sentence(arguments, sentence):
    with pytest.raises(UserError) as error:
        script_run(arguments)
    assert sentence in str(error.value) and not str(error.value).startswith("Error")
