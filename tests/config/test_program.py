"""A mistyped or abbreviated override of a Hydra program ends in one sentence with the right names, and exit code 2."""

import sys

import pytest
from hydra.core.global_hydra import GlobalHydra

from verl.dph.config.program import run_main

ACTOR = "actor_rollout_ref.actor."


@pytest.mark.parametrize(
    ("program", "override", "sentence"),
    [
        ("dph_trainer", f"{ACTOR}sft_loss_mod=js", f"no setting: did you mean {ACTOR}sft_loss_mode or "),
        ("dph_trainer", "trainr.nnodes=2", "trainr.nnodes is no setting: did you mean trainer.nnodes"),
        ("dph_trainer", "sft_loss_coeff=1", f"sft_loss_coeff is no setting: its full name is {ACTOR}sft_loss_coeff."),
        ("dph_trainer", "+actor.sft_loss_coeff=1", f"its full name is {ACTOR}sft_loss_coeff."),
        ("dph_trainer", "device=cpuu", "device=cpuu is unknown: use one of cpu, cpu_vllm, cuda, cuda_hf."),
        ("dph_trainer", "xyzzy=1", "xyzzy is no setting: --help lists the program's own, --help-all verl's too."),
        ("dph_trainer", "data.sft_pt=a=b", "The command line cannot be read: mismatched input '=' expecting <EOF>."),
        ("evaluate", "evaluate.modles={}", "evaluate.modles is no setting: did you mean evaluate.models"),
    ],
)
def test_an_override_that_names_no_setting(program, override, sentence, monkeypatch, capsys):
    monkeypatch.setenv("DEVICE", "cpu")
    monkeypatch.setattr(sys, "argv", ["program", override])
    with pytest.raises(SystemExit) as ended:
        run_main(lambda config: pytest.fail("the program starts"), program)
    GlobalHydra.instance().clear()
    said = capsys.readouterr().err.strip()
    assert ended.value.code == 2
    assert said.startswith("Error: ") and "\n" not in said and sentence in said


def test_a_setting_that_verl_lacks_can_be_added(monkeypatch):
    started = []
    monkeypatch.setenv("DEVICE", "cpu")
    monkeypatch.setattr(sys, "argv", ["program", "+actor_rollout_ref.rollout.enable_sleep_mode=False"])
    run_main(started.append, "dph_trainer")
    GlobalHydra.instance().clear()
    assert started[0].actor_rollout_ref.rollout.enable_sleep_mode is False
