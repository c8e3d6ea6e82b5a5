"""The command line of a launch script, as a run."""

import pytest

from rl.common.errors import UserError
from rl.configuration.arguments import run_of
from rl.configuration.names import CHECKOUT

pytestmark = pytest.mark.usefixtures("environment")


@pytest.mark.parametrize("name", ["2024_11_27", "1_11", "3_0.05", "null", "True", "nan", "1e5_", "my_run"])
def test_a_name_that_hydra_would_read_as_a_number_is_the_runs_name(environment, name):
    """2024_11_27 was the folder 20241127, which 20_241_127 was too."""
    environment(DEVICE="cpu")
    assert run_of("grpo", [name]).composed.trainer.experiment_name == name


def test_a_script_can_be_named_in_its_own_folder(monkeypatch):
    monkeypatch.chdir(CHECKOUT / "scripts" / "qwen")
    assert run_of("grpo.sh", ["my_run"]).experiment.name == "qwen_math"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["scripts/llama/grpo.sh"], "has no NAME; usage: bash scripts/llama/grpo.sh NAME [seed] "),
        (["scripts/llama/js_kl.sh", "0.2"], "NAME is '0.2', a number: give the run's NAME first; usage: bash "),
        (["jskl", "run"], "script of scripts/llama or scripts/qwen; did you mean 'js_kl'?"),
        (["grpo", "run", "1", "2"], "'2' is neither KEY=VALUE nor a positional argument"),
        (["js_kl", "run", "0.2", "--seed=3"], "--seed=3 is unknown: the options are --dry-run and"),
        (["scripts/other/js_kl.sh", "run"], "'scripts/other/js_kl.sh' is neither a method nor"),
    ],
)
def test_wrong_arguments_are_one_sentence(arguments, sentence):
    with pytest.raises(UserError) as error:
        run_of(arguments[0], arguments[1:])
    assert sentence in str(error.value) and not str(error.value).startswith("Error")
