"""Verdicts of claims."""

from rl.evaluation.analysis.claims import compared, verdict


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
