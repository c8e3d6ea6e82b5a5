"""The tables of settings: whole, and in step with what implements them."""

from typing import get_args

import pytest

from rl.configuration.compose import compose
from rl.configuration.evaluate import Evaluate
from rl.configuration.nesting import flat, nested
from rl.configuration.programs import PROGRAMS
from rl.configuration.setting import Section, violations
from rl.configuration.training import Rehearsal
from rl.evaluation.outputs import NO_STYLES
from rl.metrics.styles import BY_PREFIX, BY_STRUCTURE
from verl.dph.objective.terms import MODES
from verl.dph.training.config import forms_of


def names(section: type[Section], name: str) -> tuple[str, ...]:
    return get_args(section.model_fields[name].annotation)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_setting_is_stated_once_and_its_default_is_allowed(program):
    keys = [f"{section.at}.{name}" for section in PROGRAMS[program].sections for name in section.model_fields]
    assert len(set(keys)) == len(keys)
    assert all(setting.help for setting in PROGRAMS[program].changed())
    assert not [*violations(compose(program), PROGRAMS[program].sections)]


def test_the_divergences_and_forms_are_those_that_are_implemented():
    assert names(Rehearsal, "sft_loss_mode") == ("none", *MODES)
    assert {form: forms_of("js", form, True) for form in names(Rehearsal, "sft_loss_form")} == {
        "auto": (True, True),
        "generator": (True, False),
        "policy": (False, True),
    }


def test_the_evaluation_s_names_are_those_of_the_report():
    assert names(Evaluate, "styles_by") == (BY_STRUCTURE, BY_PREFIX, NO_STYLES)


def test_names_and_nesting():
    values = {"a.b": 1, "a.c.d": [], "e": {}}
    assert nested(values) == {"a": {"b": 1, "c": {"d": []}}, "e": {}}
    assert dict(flat(nested(values))) == values
