"""Pass@k, majority and styles of groups of responses, against numbers computed by hand."""

from math import log

import pytest

from rl.metrics import response_groups
from rl.metrics.response_groups import Response, mean_majority, mean_pass_at_k, style_metrics
from rl.metrics.styles import KNOWN_STYLES, OTHERS

JOIN = "SELECT a.x FROM a JOIN b ON a.id = b.id WHERE b.y = {}"
IN = "SELECT x FROM a WHERE id IN (SELECT id FROM b WHERE y = {})"
PLAIN = "SELECT x FROM a WHERE y = {}"


def queries(*preds: str, correct: bool = True) -> list[Response]:
    return [Response(correct, "sql", pred, "match" if correct else "mismatch") for pred in preds]


def shares(**of_names: float) -> dict[str, float]:
    return {f"style/{name}": of_names.get(name, 0.0) for name in (*KNOWN_STYLES, OTHERS)}


def test_pass_at_k_is_the_mean_over_prompts():
    # 1 of 4: 1/4, 1 - C(3,2)/C(4,2) = 1/2, 1. 2 of 4: 1/2, 1 - 1/6 = 5/6, 1. 0 of 4: 0.
    found = mean_pass_at_k([(4, 1), (4, 2), (4, 0)], 4)
    assert found == pytest.approx({"pass@1": 0.25, "pass@2": 4 / 9, "pass@4": 2 / 3})
    # Where rollouts failed, a prompt counts up to its size. 1 of 2 beside 1 of 5 (k/5); k goes up to n.
    expected = {"pass@1": 0.35, "pass@2": 0.7, "pass@4": 0.8, "pass@5": 1.0}
    assert mean_pass_at_k([(2, 1), (5, 1)], 5) == pytest.approx(expected)
    assert mean_pass_at_k([(2, 1)], 4) == pytest.approx({"pass@1": 0.5, "pass@2": 1.0})
    assert mean_pass_at_k([], 4) == {}


def test_a_majority_is_of_equal_texts_and_ties_are_drawn():
    right, wrong = Response(True, "math", r"\frac{1}{2}", "match"), Response(False, "math", "2", "mismatch")
    spelled = Response(True, "math", r"\dfrac{1}{2}.", "match")
    silent = Response(False, "math", None, "no_answer")
    # 2 right of one spelling against 1: 1. A tie of 1 with 1: 1/2. Without a vote: 0. Of 2 samples: not of n.
    groups = [[right, spelled, wrong], [right, wrong, silent], [silent] * 3, [right, right]]
    assert mean_majority(groups, 3) == pytest.approx({"maj@3": 0.5})
    assert mean_majority([[Response(True, "task"), Response(False, "task")]], 2) == {}  # the reward says no answers

    # SQL votes by its text.
    one, other = Response(True, "sql", "SELECT  1\n", "match"), Response(False, "sql", "SELECT 2", "mismatch")
    failed = Response(False, "sql", "SELECT x", "pred_error")
    assert mean_majority([[one, Response(True, "sql", "SELECT 1", "match"), other, failed]], 4) == {"maj@4": 1.0}


def test_styles_are_structures_where_no_comment_says_otherwise():
    groups = [
        queries(JOIN.format(1), IN.format(1)) + queries(PLAIN.format(1), correct=False),
        queries(JOIN.format(2), JOIN.format(3)),
        queries(PLAIN.format(2), correct=False),  # none is correct
    ]
    # ln 2 and 0; 2 and 1 structures; 3 of 4 correct queries join.
    expected = {"style_entropy": log(2) / 2, "distinct_structures": 1.5} | shares(JOIN=0.75, IN=0.25)
    assert style_metrics(groups) == pytest.approx(expected)
    assert style_metrics([[Response(True, "math", "1", "match")], groups[2]]) == {}


def test_styles_are_comments_where_most_correct_queries_have_a_known_one():
    groups = [queries("/*IN*/ " + JOIN.format(1), "/*IN*/ " + IN.format(1), "/*EXISTS*/ " + PLAIN.format(1))]
    # two of three announce IN; what they are is JOIN, IN and none of the structures
    entropy = -(2 / 3 * log(2 / 3) + 1 / 3 * log(1 / 3))
    expected = {"style_entropy": entropy, "distinct_structures": 3.0} | shares(IN=2 / 3, EXISTS=1 / 3)
    assert style_metrics(groups) == pytest.approx(expected)
    without = [queries("/*IN*/ " + JOIN.format(1), JOIN.format(2))]  # half of them is not most
    assert style_metrics(without)["style/JOIN"] == 1


def test_structures_are_of_every_mth_prompt_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(response_groups, "MAX_PARSED", 3)
    some = [queries(JOIN.format(1), JOIN.format(1), IN.format(1)), queries(IN.format(2))]
    assert style_metrics(some)["style/JOIN"] == pytest.approx(2 / 4)  # 3 distinct queries
    assert style_metrics([*some, queries(PLAIN.format(3))])["style/IN"] == pytest.approx(1 / 4)  # 4: every other prompt
    assert style_metrics([queries(*(JOIN.format(i) for i in range(9))), *some])["distinct_structures"] == 1  # 12: one
