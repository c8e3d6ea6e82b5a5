"""Tables of settings: their types, the sentence for a value that they do not allow, and what implements them."""

import math
from typing import Any, Literal, get_args

import pytest
from omegaconf import OmegaConf
from pydantic import Field, create_model

from rl.common.errors import UserError
from rl.configuration.compose import compose
from rl.configuration.evaluate import Evaluate
from rl.configuration.programs import PROGRAMS
from rl.configuration.setting import MISSING, Count, Paths, Positive, Section, Share, TopK, settings_of, violations
from rl.configuration.training import Rehearsal
from rl.evaluation.outputs import NO_STYLES
from rl.metrics.styles import BY_PREFIX, BY_STRUCTURE
from verl.dph.objective.terms import MODES
from verl.dph.training.config import forms_of


def sentences(kind: Any, value: object) -> list[str]:
    section = create_model("Some", __base__=Section, __cls_kwargs__={"at": "some"}, key=(kind, ...))
    return [sentence for _, sentence in violations(OmegaConf.create({"some": {"key": value}}), section)]


@pytest.mark.parametrize(
    ("kind", "allowed", "others", "words"),
    [
        (Count | None, [1, None], [True, 1.0, "1"], "a valid integer"),
        (Positive, [1], [math.inf, math.nan], "a finite number"),
        (Share, [1], [1.5], "less than or equal to 1"),
        (TopK, [1, -1], [0], "-1, or greater than or equal to 1"),
        (Paths | None, ["a", ["a", "b"], None], [3], "a valid string, or a valid list"),
        (bool | Literal["b"], [True, "b"], [1, 0, "c"], "a valid boolean, or 'b'"),
    ],
)
def test_a_value_that_a_type_does_not_allow(kind, allowed, others, words):
    assert [sentences(kind, value) for value in allowed] == [[]] * len(allowed)
    assert [sentences(kind, value) for value in others] == [
        [f"some.key={value!r} must be {words}."] for value in others
    ]


class A(Section, at="a"):
    n: Count
    path: str
    files: Paths
    tags: list[str] = Field(["x"], description="Tags.")


def test_all_wrong_values_are_reported_and_missing_ones_left_to_who_reads_them():
    config = OmegaConf.create({"a": {"n": 0, "path": MISSING, "files": "${a.n}", "tags": ["x", 1]}})
    found = [sentence.partition(" ")[0] for _, sentence in violations(config, A)]
    assert found == ["a.n=0", "a.files=0", "a.tags=['x',"]
    with pytest.raises(UserError, match="a is null, and a section of settings: leave it out, or set a.n"):
        assert [*violations(OmegaConf.create({"a": None}), A)]


def names(section: type[Section], name: str) -> tuple[str, ...]:
    return get_args(section.model_fields[name].annotation)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_setting_is_stated_once_and_its_default_is_allowed(program):
    keys = [f"{section.at}.{name}" for section in PROGRAMS[program] for name in section.model_fields]
    assert len(set(keys)) == len(keys)
    assert all(setting.help for setting in settings_of(PROGRAMS[program]))
    config = compose(program)
    assert not [found for section in PROGRAMS[program] for found in violations(config, section)]


def test_the_divergences_and_forms_are_those_that_are_implemented():
    assert names(Rehearsal, "sft_loss_mode") == ("none", *MODES)
    assert {form: forms_of("js", form, True) for form in names(Rehearsal, "sft_loss_form")} == {
        "auto": (True, True),
        "generator": (True, False),
        "policy": (False, True),
    }


def test_the_evaluation_s_names_are_those_of_the_report():
    assert names(Evaluate, "styles_by") == (BY_STRUCTURE, BY_PREFIX, NO_STYLES)
