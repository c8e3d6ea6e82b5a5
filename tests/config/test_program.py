"""Hydra programs: a mistyped override ends in one sentence with the right names."""

import sys

import pytest
from hydra.core.global_hydra import GlobalHydra

from rl.configuration.names import MAIN
from verl.dph.config import device_choice
from verl.dph.config.program import run_main

ACTOR = "actor_rollout_ref.actor."


@pytest.mark.parametrize(
    ("program", "override", "sentence"),
    [
        (MAIN, f"{ACTOR}sft_loss_mod=js", f"not a setting: did you mean {ACTOR}sft_loss_mode or "),
        (MAIN, "sft_loss_coeff=1", f"sft_loss_coeff is not a setting: did you mean {ACTOR}sft_loss_coeff?"),
        (MAIN, "device=cuda", "device=cuda needs a GPU, and torch finds none here"),
        (MAIN, "sft_los_coeff=1", f"sft_los_coeff is not a setting: did you mean {ACTOR}sft_loss_coeff or "),
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
