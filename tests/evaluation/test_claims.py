"""Verdicts and the demo's assertion."""

import pytest

from rl.evaluation.analysis.claims import assert_styles, verdict


@pytest.mark.parametrize(
    ("value", "bound", "above", "expected"),
    [
        ([0.05, 0.02, 0.08], 0.0, True, "seen"),
        ([0.05, -0.01, 0.08], 0.0, True, "seen, but interval includes 0"),
        ([0.05, 0.0, 0.08], 0.0, True, "seen, but interval includes 0"),
        ([-0.01, -0.05, 0.03], 0.0, True, "not seen"),
        ([0.0, 0.0, 0.0], 0.0, True, "not seen"),
        ([0.2, 0.1, 0.3], 0.35, False, "seen"),
        ([0.3, 0.2, 0.4], 0.35, False, "seen, but interval includes 0.35"),
        ([0.4, 0.3, 0.5], 0.35, False, "not seen"),
        (None, 0.0, True, "not measured"),
    ],
)
def test_verdict(value, bound, above, expected):
    assert verdict(value, bound, above) == expected


def report_with(**entropy):
    return {
        name: {"in_domain": {"style_entropy": None if value is None else [value, value - 0.1, value + 0.1]}}
        for name, value in entropy.items()
    }


def test_assertion_holds():
    assert assert_styles(report_with(base=1.3, grpo=0.14, dph_js=0.81)) == []
    assert assert_styles(report_with(dph_js=0.61)) == []


def test_assertion_fails_at_its_bounds():
    failures = assert_styles(report_with(grpo=0.35, dph_js=0.6))
    assert failures == [
        "grpo keeps a style entropy of 0.35 in domain, not below 0.35.",
        "dph_js has a style entropy of 0.60 in domain, not above 0.6.",
    ]


def test_nothing_to_assert_is_a_failure():
    assert "neither grpo nor dph_js" in assert_styles(report_with(base=1.3))[0]
    assert "grpo has no style entropy" in assert_styles(report_with(grpo=None))[0]
