"""Right answers against solved questions: frontier and values, hand-made."""

import pytest

from rl.evaluation.analysis.trade_off import Point, TradeOff, trade_offs, trade_offs_over_seeds
from rl.evaluation.report.pareto_figure import pareto_files


def trade_off(**points) -> TradeOff:
    """The trade-off of points with (x, y) of each seed; a method whose name begins with gold sees gold answers."""
    found = {
        name: Point(name.upper(), "gold" if name.startswith("gold") else None, values)
        for name, values in points.items()
    }
    return TradeOff("in_domain", 8, (40.0, 80.0), found)


def test_the_frontier_is_what_no_other_method_reaches_in_both_means():
    found = trade_off(
        a=[(30, 90)], b=[(50, 70), (70, 90)], c=[(55, 79)], d=[(65, 60)], twin=[(65 + 1e-12, 60)], gold_e=[(90, 99)]
    )
    assert found.frontier == ["a", "b", "d", "twin"]  # c lies below b's mean of (60, 80)


@pytest.mark.parametrize(("seeds", "bars"), [(1, "range of 1 seed;"), (2, "range of 2 seeds;")])
def test_the_picture_says_what_its_bars_are(seeds, bars):
    """One seed of a study has no intervals."""
    assert bars in pareto_files([trade_off(a=[(30, 90)] * seeds, b=[(50, 70)] * seeds)])["pareto.svg"]


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
    assert near.points["grpo"].values == [(50, 75), (25, 50)] and far.points["grpo"].mean == (20, 100)
    assert {name: point.role for name, point in near.points.items()} == {"grpo": None, "chord": "gold", "dph_js": None}
    # The reference is the mean of both draws.
    again = {column: {"mean": v + 0.1, "values": [v + 0.1, v + 0.1]} for column, v in base.items()}
    both = trade_offs_over_seeds(content | {"bases": content["bases"] | {"base_again": again}})
    assert both[0].base == pytest.approx((25, 65)) and both[1].base == pytest.approx((45, 85))
    assert trade_offs_over_seeds(content | {"methods": {"grpo": values}}) == []  # one method trades nothing off


def test_a_report_has_the_intervals_of_its_tables(run):
    near, far = trade_offs(run.comparison)
    assert list(near.points) == ["grpo", "dph_f", "dph_js"] and far.split == "out_of_domain"
    for name, point in near.points.items():
        found = run.report[name]["in_domain"]["pass@k"]
        assert point.intervals == tuple([100 * v for v in found[k]] for k in ("1", "8"))
        assert point.values == [(100 * found["1"][0], 100 * found["8"][0])]
