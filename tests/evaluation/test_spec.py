"""Specifications: what is rejected, and the order of methods."""

import json
from pathlib import Path

import pytest

from rl.common.errors import UserError
from rl.evaluation.spec import read_spec, specification

BASE_ONLY = {"base": {"splits": {"s": {"samples": "x"}}}}


def test_the_base_comes_first_and_the_others_in_their_order():
    """The others are compared with it as they are read."""
    names = ("grpo", "base_again", "dapo", "base")
    methods = dict.fromkeys(names, BASE_ONLY["base"])
    spec = specification({"title": "t", "summary": "s", "methods": methods}, Path("/x"))
    assert [*spec.methods] == ["base", "base_again", "grpo", "dapo"]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"styles_by": "colour"}, "styles_by: .* 'prefix', 'structure' or 'opening', but it has 'colour'"),
        ({"methods": {}}, "no method 'base'"),
        ({"styles": ["JOIN", "JOIN"]}, "has a name twice"),
        ({"label": "Base"}, "methods base and grpo have one label; give one of them another"),
        (
            {"methods": {"base": {"splits": dict.fromkeys(("bird", "s", "BIRD"), {"samples": "x"})}}},
            "splits bird and BIRD have one name in the report",
        ),
        (
            {"methods": BASE_ONLY | {"grpo": {"splits": {"t": {"samples": "x"}}}}},
            "method 'grpo' has the splits .'t'. and 'base' has .'s'.",
        ),
        ({"eta": 0.1}, "methods.grpo: it has only one of 'family' and 'eta'"),
        ({"checkpoints": {"0": BASE_ONLY["base"]}}, "methods.grpo.checkpoints.0"),
        ({"checkpoints": {"20": {"splits": {"t": {"samples": "x"}}}}}, "has the split 't', which is not one of the"),
    ],
)
def test_invalid_specifications(tmp_path, changed, sentence):
    content = {"title": "t", "summary": "s", "methods": BASE_ONLY}
    of_method = changed.keys() & {"eta", "checkpoints", "label"}
    content |= {"methods": BASE_ONLY | {"grpo": BASE_ONLY["base"] | changed}} if of_method else changed
    (tmp_path / "spec.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=f"spec.json is invalid: .*{sentence}"):
        read_spec(tmp_path / "spec.json")
