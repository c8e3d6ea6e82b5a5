"""Tables of settings: their types, and the sentence for a value that they do not allow."""

import math
from typing import Any, Literal

import pytest
from omegaconf import OmegaConf
from pydantic import Field, create_model

from rl.common.errors import UserError
from rl.configuration.setting import MISSING, Count, Paths, Positive, Section, Share, TopK, check, violations


def sentences(kind: Any, value: object) -> list[str]:
    section = create_model("Some", __base__=Section, __cls_kwargs__={"at": "some"}, key=(kind, ...))
    return [sentence for _, sentence in violations(OmegaConf.create({"some": {"key": value}}), [section])]


@pytest.mark.parametrize(
    ("kind", "allowed", "others", "words"),
    [
        (bool, [True], [1, "true", None], "a valid boolean"),
        (Count, [1], [0], "greater than or equal to 1"),
        (Count | None, [1, None], [True, 1.0, "1"], "a valid integer"),
        (Positive, [1, 0.5], [True, "1", None], "a valid number"),
        (Positive, [1], [math.inf, math.nan], "a finite number"),
        (Share, [1], [1.5], "less than or equal to 1"),
        (TopK, [1, -1], [0], "-1, or greater than or equal to 1"),
        (Paths | None, ["a", ["a", "b"], None], [3], "a valid string, or a valid list"),
        (Literal["a", "b"], ["a"], ["c", 1, None], "'a' or 'b'"),
        (bool | Literal["b"], [True, "b"], [1, 0, "c"], "a valid boolean, or 'b'"),
        (dict, [{}, {"a": 1}], [[], "a"], "a valid dictionary"),
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
    with pytest.raises(UserError) as error:
        check(config, [A])
    assert [line.partition(" ")[0] for line in str(error.value).splitlines()] == ["a.n=0", "a.files=0", "a.tags=['x',"]
    with pytest.raises(UserError, match="a is null, and a section of settings: leave it out, or set a.n"):
        check(OmegaConf.create({"a": None}), [A])
