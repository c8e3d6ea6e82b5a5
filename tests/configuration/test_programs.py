"""The tables of settings: whole, and in step with what implements them."""

from typing import get_args

import pytest

from rl.configuration.evaluate import EVALUATE
from rl.configuration.nesting import flat, nested
from rl.configuration.programs import PROGRAMS
from rl.configuration.setting import MISSING, VERLS
from rl.configuration.training import TRAINING
from rl.evaluation.outputs import NO_STYLES
from rl.metrics.styles import BY_PREFIX, BY_STRUCTURE
from verl.dph.divergence.loss_modes import MODES, terms_of

TABLE = {setting.key: setting for setting in (*TRAINING, *EVALUATE)}
ACTOR = "actor_rollout_ref.actor."


def names(key: str) -> tuple[str, ...]:
    return get_args(TABLE[key].type)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_setting_is_stated_once_and_its_default_is_allowed(program):
    settings = PROGRAMS[program].settings
    keys = [setting.key for setting in settings]
    assert len(set(keys)) == len(keys)
    for setting in settings:
        assert (setting.default is VERLS) == (not setting.help), setting.key
        if setting.default not in (VERLS, MISSING) and "${" not in str(setting.default):
            assert setting.violation(setting.default) is None


def test_the_divergences_and_forms_are_those_that_are_implemented():
    assert names(f"{ACTOR}sft_loss_mode") == ("none", *MODES)
    forms = {
        form: terms_of("js", form, True, alpha=0.2, kl_estimator="k1", baseline="centred")
        for form in names(f"{ACTOR}sft_loss_form")
    }
    assert {form: (terms.pef is not None, terms.exp is not None) for form, terms in forms.items()} == {
        "auto": (True, True),
        "generator": (True, False),
        "policy": (False, True),
    }


def test_the_evaluation_s_names_are_those_of_the_report():
    assert names("evaluate.styles_by") == (BY_STRUCTURE, BY_PREFIX, NO_STYLES)


def test_names_and_nesting():
    values = {"a.b": 1, "a.c.d": [], "e": {}}
    assert nested(values) == {"a": {"b": 1, "c": {"d": []}}, "e": {}}
    assert dict(flat(nested(values))) == values
