"""Right answers against solved questions: the frontier and the sentence, from hand-made points."""

from dataclasses import replace

import pytest

from rl.evaluation.analysis.paired_test import paired_tests
from rl.evaluation.analysis.trade_off import Point, TradeOff, trade_offs, trade_offs_over_seeds


def trade_off(**points) -> TradeOff:
    """The trade-off of points with (x, y) of each seed; a method whose name begins with gold sees gold answers."""
    found = {
        name: Point(name.upper(), "gold" if name.startswith("gold") else None, False, values)
        for name, values in points.items()
    }
    return TradeOff("in_domain", 8, (40.0, 80.0), found)


def test_the_frontier_is_what_no_other_method_reaches_in_both_means():
    found = trade_off(
        a=[(30, 90)], b=[(50, 70), (70, 90)], c=[(55, 79)], d=[(65, 60)], twin=[(65, 60)], gold_e=[(90, 99)]
    )
    assert found.frontier == ["a", "b", "d", "twin"]  # c lies below b's mean of (60, 80)


def test_methods_ahead_of_the_base_are_named_with_their_seeds():
    found = trade_off(
        one=[(45, 90), (45, 75)], both=[(41, 81), (50, 85)], neither=[(50, 79), (50, 79)], gold_e=[(90, 99), (90, 99)]
    )
    assert found.sentence == (
        "In domain, 2 of 3 methods have more right answers and more solved questions than the base: BOTH (in 2 of 2 "
        "seeds) and ONE (in 1 of 2 seeds). Learns from gold answers, so not counted: GOLD_E."
    )
    many = trade_off(**{f"m{i}": [(50 + i, 90)] for i in range(6)})
    assert many.sentence.endswith("than the base: M0, M1, M2, M3 and 2 more.")
    alone = trade_off(a=[(50, 90)], b=[(30, 30)])
    assert alone.sentence.startswith("In domain, 1 of 2 methods has more right answers")


def test_a_seed_is_compared_with_its_own_base():
    """Parts of a study that ran on other machines may have other bases."""
    found = replace(trade_off(a=[(45, 90), (45, 90)], b=[(30, 30), (30, 30)]), bases=[(30, 70), (50, 90)])
    assert found.sentence.endswith("than the base: A (in 1 of 2 seeds).")


def test_without_one_ahead_the_nearest_on_each_side_is_named():
    found = trade_off(right=[(60, 75)], further=[(70, 60)], solving=[(38.5, 95)], same=[(40, 80)])
    assert found.sentence == (
        "In domain, no method has both more right answers and more solved questions than the base. Of those with more "
        "right answers RIGHT comes nearest, 5.0 points of Pass@8 below the base. Of those with more solved questions "
        "SOLVING comes nearest, 1.5 points of Pass@1 below the base."
    )
    nothing = trade_off(a=[(30, 30)], b=[(31, 30)]).sentence
    assert nothing == "In domain, no method has both more right answers and more solved questions than the base."


def test_the_nearest_is_one_of_those_whose_gain_is_beyond_chance():
    found = trade_off(right=[(60, 75)], chance=[(50, 79)])
    nothing = "In domain, no method has both more right answers and more solved questions than the base."
    assert "Of those with more right answers CHANCE comes nearest, 1.0 points of Pass@8 below" in found.sentence
    found.points["chance"] = replace(found.points["chance"], gains=(False, False))
    found.points["right"] = replace(found.points["right"], gains=(True, False))
    said = "Of those with more right answers beyond chance RIGHT comes nearest, 5.0 points of Pass@8 below the base."
    assert found.sentence == f"{nothing} {said}"
    found.points["right"] = replace(found.points["right"], gains=(False, False))
    assert found.sentence == nothing


def test_means_that_differ_by_rounding_are_equal():
    up = 80.0 + 1e-12
    found = trade_off(same=[(40.0 + 1e-12, up)], twin=[(40.0, 80.0)], right=[(60, up)], solving=[(40.0 - 1e-12, 95)])
    assert found.frontier == ["solving", "right"]
    assert found.sentence == (
        "In domain, no method has both more right answers and more solved questions than the base. Of those with more "
        "right answers RIGHT comes nearest, with the base's Pass@8. Of those with more solved questions SOLVING comes "
        "nearest, with the base's Pass@1."
    )


def test_values_over_seeds_become_points_of_every_split():
    of_method = {"Pass@1": [0.5, 0.25], "Pass@8": [0.75, 0.5], "Pass@1, far out": [0.1, 0.3], "Pass@8, far out": [1, 1]}
    values = {column: {"values": of} for column, of in of_method.items()}
    base = {"Pass@1": 0.2, "Pass@8": 0.6, "Pass@1, far out": 0.4, "Pass@8, far out": 0.8}
    content = {
        "bases": {"base": {column: {"mean": v, "values": [v, v]} for column, v in base.items()}},
        "methods": {"grpo": values, "chord": values, "dph_js": values},
        "labels": {"grpo": "GRPO", "chord": "CHORD", "dph_js": "JS"},
        "splits": ["near", "far_out"],
        "solved_in": 8,
        "roles": {"chord": "gold"},
    }
    near, far = trade_offs_over_seeds(content)
    assert (near.split, near.base, far.base) == ("near", (20, 60), (40, 80))
    assert near.bases == [(20, 60), (20, 60)]
    assert near.points["grpo"].values == [(50, 75), (25, 50)] and far.points["grpo"].mean == (20, 100)
    assert {name: (point.role, point.rehearses) for name, point in near.points.items()} == {
        "grpo": (None, False),
        "chord": ("gold", False),
        "dph_js": (None, True),
    }
    # The reference is the mean of both draws.
    again = {column: {"mean": v + 0.1, "values": [v + 0.1, v + 0.1]} for column, v in base.items()}
    both = trade_offs_over_seeds(content | {"bases": content["bases"] | {"base_again": again}})
    assert both[0].base == pytest.approx((25, 65)) and both[1].bases == [pytest.approx((45, 85))] * 2
    assert trade_offs_over_seeds(content | {"methods": {"grpo": values}}) == []  # one method trades nothing off


def test_a_report_has_the_intervals_of_its_tables(run):
    near, far = trade_offs(run.comparison, paired_tests(run.comparison))
    assert list(near.points) == ["grpo", "dph_f", "dph_js"] and far.split == "out_of_domain"
    for name, point in near.points.items():
        found = run.report[name]["in_domain"]["pass@k"]
        assert point.intervals == tuple([100 * v for v in found[k]] for k in ("1", "8"))
        assert point.values == [(100 * found["1"][0], 100 * found["8"][0])]
        verdicts = {c["predicate"]: c["verdict"] for c in run.report["_claims"] if c["method"] == name}
        in_claims = (verdicts[f"higher {metric} than the base"] for metric in ("Pass@1", "Pass@8"))
        assert far.points[name].gains == tuple(verdict == "supported" for verdict in in_claims)
