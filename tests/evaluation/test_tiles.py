"""The tiles of a page: values, differences from the base and verdicts."""

from rl.evaluation.analysis.paired_test import paired_tests
from rl.evaluation.report.answer_grid import shown_methods
from rl.evaluation.report.theme import method_looks
from rl.evaluation.report.tiles import tiles
from rl.evaluation.table import p_in_words


def test_a_tile_has_the_difference_its_interval_and_the_verdict(run):
    shown, looks = shown_methods(run.comparison), method_looks(run.comparison.spec.labels)
    tests = paired_tests(run.comparison)
    found = tiles(run.comparison, tests, shown, looks)
    assert [tile.title for tile in found] == ["Pass@1", "Pass@8", "Styles"]
    assert found[1].about.startswith("right at least once in 8 tries")
    assert found[2].about == "forms of SQL among a question’s right answers, of 5"
    of_base, of_grpo, *_ = found[1].bars
    [test] = [t for t in tests if (t.split, t.first, t.second, t.metric) == ("in_domain", "grpo", "base", "pass@8")]
    value, low, high = (f"{100 * v:+.1f}".replace("-", "−") for v in test.difference)
    assert of_grpo.difference == f"{value} [{low}, {high}]: {test.verdict}, {p_in_words(test.p_holm)}"
    assert not of_base.difference
    styles = found[2].bars[1]  # tested by their diversity, whose difference is in another unit
    assert styles.value == "1.0" and styles.difference.startswith("style diversity −")
