"""The report from real files, end to end: report.json's form and values, the page, the command line."""

import json
import re
from collections import Counter
from html import unescape

import numpy as np
import pytest

from rl.common.errors import UserError
from rl.evaluation.measures import MEASURES
from rl.evaluation.report.page import LINKS
from rl.evaluation.report.write import write_report
from rl.evaluation.spec import read_spec
from rl.evaluation.tables import group_titles
from tests.evaluation.conftest import PROMPTS, N

KS = ["1", "2", "4", "8", "16"]


def samples_of(run, name: str) -> list[dict]:
    return [json.loads(line) for line in (run.folder / f"{name}.0.jsonl").read_text().splitlines()]


def test_report_json(run):
    report = run.report
    assert json.loads((run.out / "report.json").read_text()) == report
    names = ["base", "base_again", "grpo", "dph_f", "dph_js"]
    assert list(report) == [*names, "_definitions", "_tests", "_labels", "_solved_in", "_answers"]
    for summary in (report[name][split] for name in names for split in ("in_domain", "out_of_domain")):
        assert summary.keys() == {"n", "prompts", "groups"} | {measure.name for measure in MEASURES}
        assert list(summary["pass@k"]) == KS and summary["mean@k"].keys() == {"16"}
        assert (summary["n"], summary["prompts"], summary["maj_by"]) == (N, PROMPTS, "syntax")
        assert all(low <= value <= high for value, low, high in summary["maj@k"].values())
    assert {measure.name for measure in MEASURES} <= report["_definitions"].keys()
    grpo, dph_js = (report[name]["in_domain"] for name in ("grpo", "dph_js"))
    assert grpo["style_entropy"] == [0, 0, 0] and grpo["style_share"]["JOIN"] == 1 and dph_js["style_entropy"][0] > 1
    accuracy = np.mean([sample["acc"] for sample in samples_of(run, "base")])
    base = report["base"]["in_domain"]
    assert base["pass@k"]["1"][0] == base["mean@k"]["16"][0] == pytest.approx(accuracy)
    tests = {(t["split"], t["first"], t["second"], t["metric"]): t for t in report["_tests"]}
    assert tests["in_domain", "grpo", "base", "mean@16"]["p_holm"] < 0.01
    assert tests["out_of_domain", "grpo", "base", "mean@16"]["verdict"] == "higher"
    # Where a method with a divergence is worse is said like where it is better, in and out of domain.
    for split in ("in_domain", "out_of_domain"):
        assert tests[split, "dph_f", "grpo", "mean@16"]["verdict"] == "lower"
    solved = {sample["id"] for sample in samples_of(run, "base") if sample["acc"] and sample["sample"] < 8}
    assert tests["in_domain", "grpo", "base_again", "keep_rate"]["prompts"] == len(solved)
    assert tests["in_domain", "dph_js", "grpo", "style_diversity"]["difference"][0] > 0.5
    assert all(test["p"] <= test["p_holm"] <= 1 for test in tests.values())


def test_page(run):
    page = (run.out / "report.html").read_text()
    assert page.lstrip().startswith("<!doctype html>") and len(page) < 1_000_000
    assert not re.search(r"src=|@import|url\((?!#)", page)
    opened, closed = (Counter(re.findall(tag, page)) for tag in (r"<(\w+)(?:\s[^<>]*[^<>/])?>", r"</(\w+)>"))
    assert opened - closed == {"meta": 4} and not closed - opened
    ids, references = (re.findall(rf'\s(?:{name})="([^"]*)"', page) for name in ("id", "href|src|xlink:href"))
    assert len(ids) == len(set(ids)) and {r for r in references if not r.startswith("#")} == set(LINKS.values())
    assert {r.removeprefix("#") for r in references if r.startswith("#")} <= set(ids)
    # Pass@k, two other figures and five differences of two splits, two training curves. And the grid's panels, in two
    # blocks each, and the trade-off for both screens.
    assert page.count("<svg") == 2 * (1 + 2 + 5) + 2 + 2 * 2 * 4 + 2
    text = unescape(re.sub(r"<[^>]*>", " ", page))
    for expected in (
        "A & B", "DPH-JS <η 0.2>", "0:01:15", "Pass@16", "seed", "0.0003", "3 simple questions",
        "GRPO, DPH-F and DPH-JS <η 0.2>, trained from Base. 12 questions (In domain) and 12 questions (Out of domain)",
        "Right answers (Pass@1) against solved questions (Pass@8)",
        "Pass@1: the share of correct ones among all k samples.", "and wrong ones are grey",
    ):  # fmt: skip
        assert expected in text
    assert "Mean@" not in text and not re.search(r"\d forms\b", text)  # each measure has one name


def test_results_of_groups_of_questions(run):
    summary = run.report["grpo"]["in_domain"]
    groups, samples = summary["groups"], samples_of(run, "grpo")
    assert list(groups) == ["hard", "difficulty"]  # family has five values: it only filters the browser
    assert list(groups["hard"]) == ["hard", "plain"]
    assert {value: found["prompts"] for value, found in groups["difficulty"].items()} == dict.fromkeys(
        ["simple", "moderate", "challenging", "plain"], 3
    )
    for value, hard in (("hard", True), ("plain", False)):
        found = groups["hard"][value]
        accuracy = np.mean([sample["acc"] for sample in samples if ((sample["id"] - 100) % 3 == 0) is hard])
        assert found["prompts"] == (4 if hard else 8)
        assert found["pass@k"].keys() == set(KS) and found["pass@k"]["1"][0] == pytest.approx(accuracy)
        assert {"greedy", "keep_rate", "lost", "newly_solved", "style_diversity"} <= found.keys()
    several = ["hard", "not hard", "simple", "moderate", "challenging", "not difficulty"]
    assert list(group_titles(summary).values()) == several


def test_a_task_without_styles_greedy_or_logs(made_up_report, tmp_path):
    made = made_up_report(tmp_path, splits=("math",), prompts=4, styles=(), greedy=False)
    made.method("base")
    made.method("grpo", skill=1)
    # The reference query of every wrong sample returned nothing to compare.
    samples = tmp_path / "grpo.0.jsonl"
    samples.write_text(samples.read_text().replace('"mismatch"', '"gold_empty"'))
    for name in ("base", "grpo"):
        path = tmp_path / f"{name}.0.meta.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"overlong_ids": [3, 5], "seed": 7}))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "pareto.svg").touch()  # of a report with more methods
    report = write_report(read_spec(made.write()), tmp_path / "out")
    assert not (tmp_path / "out" / "pareto.svg").exists()
    summary = report["grpo"]["math"]
    wrong = samples.read_text().count('"gold_empty"')
    assert (summary["gold_failures"], summary["overlong"], report["base"]["math"]["gold_failures"]) == (wrong, 2, 0)
    for name in ("greedy", "styles", "style_diversity", "style_share", "distinct_correct", "unparsed_sql"):
        assert summary[name] is None
    assert not [test for test in report["_tests"] if test["metric"] == "greedy"]
    page = (tmp_path / "out" / "report.html").read_text()
    # They repeat the base's responses where the policy has hardly changed, so that it seems to keep more.
    assert "GRPO: drawn with the base’s seed. Where the policy" in unescape(page)
    assert page.count("<svg") == 2 + 2 + 4 and "samples the reference query itself failed" in page
    assert "math: 2 prompts left out as too long." in page


def test_checkpoints_and_etas(math_run, tmp_path):
    math_run.checkpoint("grpo", 100, skill=3)
    math_run.checkpoint("grpo", 20, skill=0)
    report = write_report(read_spec(math_run.write()), tmp_path / "out")
    steps = report["_progress"]["grpo"]["math"]
    assert list(steps) == [0, 20, 100]
    of_base = report["base"]["math"]
    assert steps[0] == {"greedy": of_base["greedy"], "pass@8": of_base["pass@k"]["8"]}
    assert steps[100]["pass@8"][0] > steps[0]["pass@8"][0]
    assert json.loads((tmp_path / "out" / "report.json").read_text())["_progress"]["grpo"]["math"]["100"]
    page = (tmp_path / "out" / "report.html").read_text()
    for title in ("Pass@8 against training steps", "Greedy against training steps", "eta against greedy"):
        assert title in page
    math_run.prompts = 9
    math_run.checkpoint("grpo", 40, skill=1)
    sentence = "grpo_40.0.jsonl and .* hold different prompts .1 are in one of them alone, such as id 108"
    with pytest.raises(UserError, match=sentence):
        write_report(read_spec(math_run.write()), tmp_path / "none")
