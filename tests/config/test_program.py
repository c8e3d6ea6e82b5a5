"""Hydra programs: a mistyped override ends in one sentence with the right names."""

import sys

import pytest
from hydra.core.global_hydra import GlobalHydra

from rl.configuration.compose import CONFIG_OF
from rl.configuration.names import MAIN
from verl.dph.config import device_choice
from verl.dph.config.program import run_main

ACTOR = "actor_rollout_ref.actor."


@pytest.mark.parametrize(
    ("program", "override", "sentence"),
    [
        (MAIN, f"{ACTOR}sft_loss_mod=js", f"not a setting: did you mean {ACTOR}sft_loss_mode or "),
        (MAIN, "sft_loss_coeff=1", f"sft_loss_coeff is not a setting: did you mean {ACTOR}sft_loss_coeff?"),
        (MAIN, "+actor.sft_loss_coeff=1", f"did you mean {ACTOR}sft_loss_coeff?"),
        (MAIN, "device=cpuu", "Could not find 'device/cpuu'"),
        (MAIN, "device=cuda", "device=cuda needs a GPU, and torch finds none here"),
        (MAIN, "xyzzy=1", "xyzzy is not a setting: docs/reference/settings.md lists them."),
        (MAIN, "data.sft_pt=a=b", "Hydra cannot compose the settings: mismatched input '=' expecting <EOF>"),
    ],
)
def test_an_override_that_names_no_setting(program, override, sentence, monkeypatch, capsys):
    monkeypatch.setenv("DEVICE", "cpu")
    monkeypatch.setattr(device_choice, "is_cuda_available", False)
    monkeypatch.setattr(sys, "argv", ["program", override])
    with pytest.raises(SystemExit) as ended:
        run_main(lambda config: pytest.fail("the program starts"), program)
    GlobalHydra.instance().clear()
    said = capsys.readouterr().err.strip()
    assert ended.value.code == 2
    assert said.startswith("Error: ") and "Traceback" not in said and sentence in said


def test_a_setting_that_verl_lacks_can_be_added(monkeypatch):
    started = []
    monkeypatch.setenv("DEVICE", "cpu")
    monkeypatch.setattr(sys, "argv", ["program", "+actor_rollout_ref.rollout.enable_sleep_mode=False"])
    run_main(started.append, MAIN)
    GlobalHydra.instance().clear()
    assert started[0].actor_rollout_ref.rollout.enable_sleep_mode is False


@pytest.mark.parametrize("program", CONFIG_OF)
def test_help_and_a_run_write_no_file(program, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    seen = []

    def job(config):
        seen.append(config.trainer.nnodes)

    monkeypatch.setattr(sys, "argv", ["program", "--help", "trainer.nnodes=3"])
    run_main(job, program)
    assert not seen and capsys.readouterr().out.startswith("usage: python -m verl.dph.")
    monkeypatch.setattr(sys, "argv", ["program", "trainer.nnodes=3"])
    run_main(job, program)
    assert seen == [3] and not list(tmp_path.iterdir())
