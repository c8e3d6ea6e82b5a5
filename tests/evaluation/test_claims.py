"""Verdicts of claims, and what the demo promises."""

from rl.evaluation.analysis.claims import compared, failed_checks, verdict


def test_verdicts_go_by_the_side_of_the_whole_interval():
    for value, expected in (
        ([0.05, 0.02, 0.08], "supported"),
        ([0.05, 0.0, 0.08], "inconclusive"),
        ([0.0, 0.0, 0.0], "inconclusive"),
        (None, "not measured"),
    ):
        assert verdict(value, 0.0, above=True) == compared(value, 0.05) == expected
    lower = [-0.05, -0.08, -0.02]
    assert (verdict(lower, 0.0, above=True), compared(lower, 0.05)) == ("not supported", "lower")
    assert compared([0.05, 0.02, 0.08], 0.06) == "inconclusive"  # after Holm's correction
    below = [verdict([0.4, low, 0.5], 0.35, above=False) for low in (0.3, 0.36)]
    assert [verdict([0.2, 0.1, 0.3], 0.35, above=False), *below] == ["supported", "inconclusive", "not supported"]


def test_the_demos_assertions_hold_strictly_within_their_bounds():
    def failures(lost=0.2, **entropy):
        def of(name):
            value = 0.9 if name == "base" else 0.9 - lost
            return {"n": 32, "style_entropy": entropy[name], "pass@k": {"8": [1.0], "32": [value]}}

        return failed_checks({name: {"in_domain": of(name)} for name in entropy})

    assert failures(base=[1.3], grpo=[0.14], dph_js=[0.81]) == failures(dph_js=[0.61]) == []
    assert failures(base=[1.3], grpo=[0.35], dph_js=[0.6]) == [
        "grpo has a style entropy of 0.35 in domain, not below 0.35.",
        "dph_js has a style entropy of 0.60 in domain, not above 0.6.",
    ]
    assert "neither grpo nor dph_js" in failures(base=[1.3])[0]
    assert "grpo has no style entropy" in failures(base=[1.3], grpo=None)[0]
    [failure] = failures(base=[1.3], grpo=[0.14], lost=0.04)
    assert failure == "grpo has a Pass@32 of 0.860 in domain, and the base 0.900: not 0.05 more."
