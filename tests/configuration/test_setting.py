"""A setting's type, and the sentence for a value that it does not allow."""

import math
from typing import Annotated, Literal

import pytest
from omegaconf import OmegaConf
from pydantic import Field

from rl.common.errors import UserError
from rl.configuration.setting import MISSING, Count, Paths, Positive, Setting, Share, check

HALF_OPEN = Annotated[float, Field(ge=1, lt=2)]
TOP_K = Annotated[int, Field(ge=0, le=0), "0"] | Annotated[int, Field(ge=8, le=128)]


@pytest.mark.parametrize(
    ("kind", "allowed", "others", "sentence"),
    [
        (bool, [True], [1, "true", None], "must be True or False"),
        (Count, [1], [0, True, 1.0, "1", None], "must be a whole number, 1 or more"),
        (Count | None, [1, None], [0], "must be a whole number, 1 or more, or null"),
        (Positive, [1, 0.5], [0, True, "1", math.nan, math.inf, None], "must be a number above 0"),
        (Share, [1], [0, 1.5], "must be a number above 0, at most 1"),
        (HALF_OPEN, [1], [0.5, 2], "must be a number, 1 or more, below 2"),
        (TOP_K, [0, 8, 128], [7, 129, False, 0.5], "must be 0, or a whole number from 8 to 128"),
        (Paths | None, ["a", ["a", "b"], None], [3, [3]], "must be a path or a list of paths, or null"),
        (Literal["a", "b"], ["a"], ["c", 1, None], "is unknown: use one of a, b"),
        (Literal["a", "b"] | None, ["b", None], ["c"], "is unknown: use one of a, b, null"),
        (Literal[True, False, "b"], [True, "b"], [1, 0, "c"], "is unknown: use one of True, False, b"),
        (Count | Literal["all"], [3, "all"], [0, "some"], "must be a whole number, 1 or more, or all"),
        (dict, [{}, {"a": 1}], [[], "a"], "must be a mapping"),
        (list, [[], [1]], ["a", {}], "must be a list"),
    ],
)
def test_a_value_that_a_type_does_not_allow(kind, allowed, others, sentence):
    setting = Setting("some.key", kind)
    assert [setting.violation(value) for value in allowed] == [None] * len(allowed)
    assert [setting.violation(value) for value in others] == [f"some.key={value!r} {sentence}." for value in others]


def test_all_wrong_values_are_reported_and_missing_ones_left_to_who_reads_them():
    config = OmegaConf.create({"a": {"n": 0, "path": MISSING, "files": "${a.n}"}, "b": ["x", 1]})
    settings = [Setting("a.n", Count), Setting("a.path", str), Setting("a.files", Paths), Setting("b", list[str])]
    with pytest.raises(UserError) as error:
        check(config, settings)
    assert str(error.value).splitlines() == [
        "a.n=0 must be a whole number, 1 or more.",
        "a.files=0 must be a path or a list of paths.",
        "b=['x', 1] must be a list.",
    ]
    check(config, settings[1:2])
    with pytest.raises(UserError, match=r"a is null, and a section of settings: leave it out, or set a\.n\."):
        check(OmegaConf.create({"a": None}), settings[:1])
