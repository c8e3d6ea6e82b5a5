"""Specifications that are rejected."""

import json

import pytest

from rl.common.errors import UserError
from rl.evaluation.spec import read_spec

BASE_ONLY = {"base": {"splits": {"s": {"samples": "x"}}}}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"titel": "x"}, "the key titel is unknown"),
        ({"styles_by": "colour"}, "styles_by: .* 'prefix', 'structure' or 'opening', not 'colour'"),
        ({"methods": {}}, "no method 'base'"),
        ({"methods": {"base": {"splits": {"s": {"greedy": "x"}}}}}, "methods.base.splits.s.samples is missing"),
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
    of_method = changed.keys() & {"eta", "checkpoints"}
    content |= {"methods": BASE_ONLY | {"grpo": BASE_ONLY["base"] | changed}} if of_method else changed
    (tmp_path / "spec.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=f"spec.json is invalid: .*{sentence}"):
        read_spec(tmp_path / "spec.json")
