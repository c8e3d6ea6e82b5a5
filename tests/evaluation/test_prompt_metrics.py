"""Keep, lost, newly solved and the summary on hand-computed samples."""

from pathlib import Path

import numpy as np
import pytest

from rl.common.errors import UserError
from rl.evaluation.analysis.prompt_metrics import prompt_metrics, summarise, summarise_group, transition_shares
from rl.evaluation.analysis.samples import SampleSet
from rl.evaluation.measures import MAIN_TABLE, interval_of, metrics_for
from rl.metrics.distinct_answers import NO_VOTE
from tests.sample_files import metadata

STYLES = ("JOIN", "IN", "Others")


def sample_set(correct, style=None, style_names=STYLES, answer=None, unparsed=0, result=None) -> SampleSet:
    correct = np.array(correct, dtype=bool)
    style = np.zeros(correct.shape, dtype=int) if style is None else np.array(style)
    described = metadata(n=correct.shape[1], data_files={}, rows=len(correct))
    ids = np.arange(len(correct))
    answer = np.where(correct, 0, 1) if answer is None else np.array(answer)
    tokens = np.full(correct.shape, 5)
    judged = (correct, style, style_names, ~correct, 0, answer, result)
    return SampleSet(Path("made by hand"), described, ids, *judged, tokens, unparsed, [])


def test_keep_lost_and_newly_solved():
    # solved_in = 2: the base solves prompts 0 and 1 with its first two samples; on prompt 2 it is right only later.
    base = sample_set([[1, 0, 0, 0], [0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0]])
    method = sample_set([[0, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]])
    metrics = prompt_metrics(method, None, base, solved_in=2)
    # Pass@2 of 4: c = 0: 0, c = 1: 1/2, c = 2: 5/6, c = 4: 1.
    np.testing.assert_allclose(metrics["keep_rate"], [0, 5 / 6, np.nan, np.nan])
    np.testing.assert_allclose(metrics["newly_solved"], [np.nan, np.nan, 1 / 2, 1])
    np.testing.assert_allclose(metrics["lost"], [1, 0, np.nan, np.nan])
    summary = summarise(method, metrics)
    found = [summary[name][0] for name in ("keep_rate", "lost", "newly_solved")]
    assert found == pytest.approx([5 / 12, 0.5, 0.75]) and summary["greedy"] is None
    greedy = sample_set([[1], [0], [0], [0]])
    assert summarise(method, prompt_metrics(method, greedy, base, solved_in=2))["greedy"][0] == 0.25


def test_base_is_compared_through_its_later_samples():
    # Solved by the first two: prompts 0 and 1. The other two samples: 0 of 2 and 1 of 2 correct, so Pass@2 is 0 and 1.
    base = sample_set([[1, 0, 0, 0], [1, 1, 0, 1], [0, 0, 1, 1]])
    metrics = prompt_metrics(base, None, base, solved_in=2)
    np.testing.assert_array_equal(metrics["keep_rate"], [0, 1, np.nan])
    assert np.isnan(metrics["lost"]).all(), "of 2 samples more are all wrong than of a method's 4"
    np.testing.assert_array_equal(metrics["newly_solved"], [np.nan, np.nan, 1])


def test_the_summary_has_the_k_that_decides_what_is_solved():
    base, method = sample_set([[1, 0, 0, 0, 0, 0]]), sample_set([[1, 1, 0, 0, 0, 0]])
    metrics = prompt_metrics(method, None, base, solved_in=3)
    for summary in (summarise(method, metrics), summarise_group(metrics, np.array([True]))):
        assert list(summary["pass@k"]) == ["1", "2", "3", "4", "6"]
        assert summary["pass@k"]["3"][0] == pytest.approx(1 - 4 / 20)  # of C(6, 3) draws, C(4, 3) are all wrong
        assert interval_of(summary, "pass@3")[0] == pytest.approx(0.8)
    assert metrics_for(MAIN_TABLE, 6, 3)[:4] == ["greedy", "pass@1", "pass@3", "pass@6"]


def test_undefined_metrics_are_null():
    # Too few later samples of the base; a base that solved all; a task without styles; math.
    base = sample_set([[1, 0, 0], [1, 1, 1]])
    summary = summarise(base, prompt_metrics(base, None, base, solved_in=2))
    assert summary["keep_rate"] is summary["lost"] is summary["newly_solved"] is None
    base, method = sample_set([[1, 0]]), sample_set([[1, 1]], style_names=(), unparsed=None)
    summary = summarise(method, prompt_metrics(method, None, base, solved_in=2))
    assert summary["newly_solved"] is summary["distinct_correct"] is summary["unparsed_sql"] is None
    assert summary["styles"] is summary["style_entropy"] is summary["style_share"] is None
    with pytest.raises(UserError, match="2 samples per prompt, but the keep rate needs Pass@8"):
        prompt_metrics(base, None, base)


def test_styles_are_counted_among_correct_answers_and_shared_over_all():
    correct = [[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]]
    samples = sample_set(correct, style=[[0, 1, 2, 2], [0, 0, 0, 1], [2, 2, 2, 2]])
    summary = summarise(samples, prompt_metrics(samples, None, samples, solved_in=2))
    assert summary["styles"][0] == 1.5
    assert summary["style_entropy"][0] == pytest.approx(np.log(2) / 2)
    assert summary["style_share"] == {"JOIN": 4 / 12, "IN": 2 / 12, "Others": 6 / 12}
    assert summary["truncated"] == pytest.approx(7 / 12)


def test_majorities_of_very_many_samples_are_left_out():
    """They took 20 s a prompt at n = 1,024 and overflowed at 1,030."""
    n = 1030
    samples = sample_set([[1, 0] * (n // 2)], answer=[[0, 1] * (n // 2)])
    summary = summarise(samples, prompt_metrics(samples, None, samples, solved_in=8))
    assert summary["maj@k"] == {} and summary["pass@k"]["1"][0] == pytest.approx(0.5)
    assert "maj@1030" not in metrics_for("answers", n, 8) and "maj@256" in metrics_for("answers", 256, 8)


def test_majorities_and_different_correct_answers():
    # Votes: 2 for the right answer 0, 1 each for 1 and 2, so it wins; 1 of 4 right and all alone: 1/4; none.
    samples = sample_set([[1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]], answer=[[0, 0, 1, 2], [0, 1, 2, 3], [NO_VOTE] * 4])
    summary = summarise(samples, prompt_metrics(samples, None, samples, solved_in=2))
    assert summary["maj@k"]["4"][0] == pytest.approx((1 + 1 / 4) / 3)
    assert summary["maj@k"]["1"] == pytest.approx(summary["pass@k"]["1"])
    assert summary["distinct_correct"][0] == 1 and summary["unparsed_sql"] == 0
    assert summary["response_tokens"] == [5, 5, 5]


def test_majorities_of_results():
    # By its text each answer stands alone; by its result the first two are one, and win.
    samples = sample_set([[1, 1, 0, 0]], answer=[[0, 1, 2, 3]], result=np.array([[0, 0, 1, NO_VOTE]]))
    by_text, by_result = (
        summarise(samples, prompt_metrics(samples, None, samples, 2, by_result), by_result)
        for by_result in (False, True)
    )
    assert (by_text["maj@k"]["4"][0], by_text["maj_by"]) == (pytest.approx(0.5), "syntax")
    assert (by_result["maj@k"]["4"][0], by_result["maj_by"]) == (pytest.approx(1), "result")
    assert by_result["distinct_results"] == [2, 2, 2]


def test_transitions_by_hand():
    nan = np.nan
    shares = transition_shares(np.array([1, 0.5, nan, nan]), np.array([nan, nan, 0.25, 0]))
    assert shares == {"retained": 0.375, "forgotten": 0.125, "gained": 0.0625, "unsolved": 0.4375}
    assert transition_shares(np.full(3, nan), np.full(3, nan)) is None
