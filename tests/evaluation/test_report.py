"""The report from real files, end to end: report.json's shape and values, the page, the command line, its errors."""

import json
import re
from collections import Counter
from html import unescape
from types import SimpleNamespace
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pytest

from rl.common.errors import UserError
from rl.evaluation.analysis.claims import claims, compared, failed_checks, verdict
from rl.evaluation.analysis.comparison import compare
from rl.evaluation.analysis.paired_test import PairedTest, paired_tests
from rl.evaluation.analysis.prompt_metrics import transition_shares
from rl.evaluation.report import question_browser
from rl.evaluation.report.answer_grid import MOST_QUESTIONS, AnswerGrid, answer_figure
from rl.evaluation.report.figures import Figures
from rl.evaluation.report.headline import Headline
from rl.evaluation.report.page import LINKS
from rl.evaluation.report.plots import eta_families
from rl.evaluation.report.question_browser import browser_data, formatted_sql
from rl.evaluation.report.theme import COLOURS, Look, method_looks
from rl.evaluation.report.write import main, write_report
from rl.evaluation.spec import read_spec
from rl.evaluation.table import as_text
from rl.evaluation.tables import comparisons_table, group_titles

STYLES = ("JOIN", "IN", "EXISTS", "CTE", "AGG")
PROMPTS, N = 12, 16
KS = ["1", "2", "4", "8", "16"]
INTERVAL = {"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 3}
OF_K = {"required": KS, "additionalProperties": INTERVAL, "maxProperties": len(KS)}
NULLABLE = "greedy keep_rate lost newly_solved styles style_entropy distinct_correct distinct_results"
ALWAYS = "distinct_1 distinct_2 distinct_3 distinct_4 response_tokens"
SUMMARY_PROPERTIES = {
    "n": {"const": N},
    "prompts": {"const": PROMPTS},
    "pass@k": OF_K,
    "maj@k": OF_K,
    "unparsed_sql": {"const": 0},
    "maj_by": {"const": "syntax"},
    "mean@k": {"required": ["16"], "additionalProperties": INTERVAL},
    "style_share": {"required": [*STYLES, "Others"], "additionalProperties": {"type": "number"}},
    "truncated": {"type": "number"},
    "style_accuracy": {"required": [*STYLES, "Others"]},
    "groups": {"required": ["hard", "difficulty"], "maxProperties": 2},
    **dict.fromkeys(NULLABLE.split(), {"anyOf": [INTERVAL, {"type": "null"}]}),
    **dict.fromkeys(ALWAYS.split(), INTERVAL),
}
SUMMARY = {"required": list(SUMMARY_PROPERTIES), "additionalProperties": False, "properties": SUMMARY_PROPERTIES}
TEXTS = {"additionalProperties": {"type": "string"}}
REPORT = {
    "required": ["base", "base_again", "grpo", "dph_js", "_definitions", "_claims", "_tests", "_labels"],
    "properties": {"_definitions": TEXTS, "_claims": {"type": "array"}, "_tests": {"type": "array"}, "_labels": TEXTS},
    "additionalProperties": {"required": ["in_domain", "out_of_domain"], "additionalProperties": SUMMARY},
}


@pytest.fixture(scope="module")
def run(made_up_report, tmp_path_factory):
    """Five methods on two splits of SQL, GRPO with one style, DPH-F worse than GRPO, and one training log."""
    folder = tmp_path_factory.mktemp("run")
    made = made_up_report(folder, prompts=PROMPTS)
    made.content |= {"title": "A & B", "settings": {"learning rate": 3e-4}, "seconds": {"train": 75.0, "evaluate": 5.5}}
    made.method("base")
    made.method("base_again", model="base")
    made.method("grpo", skill=4, kept_styles=1)
    made.method("dph_f", skill=0)
    made.method("dph_js", skill=4, training_log="train.jsonl", label="DPH-JS <η 0.2>")
    metrics = ({"critic/rewards/mean": step / 10, "dph/divergence": 1 / step} for step in range(1, 6))
    lines = (json.dumps({"step": step, "data": data}) + "\n" for step, data in enumerate(metrics, start=1))
    (folder / "train.jsonl").write_text("".join(lines))
    made.ask(family=["any", "none", "count", "all", "most"], difficulty=["moderate", "simple", "challenging", None])
    spec = read_spec(made.write())
    report, comparison = write_report(spec, folder / "out"), compare(spec)
    grid = AnswerGrid.of_split(comparison, "in_domain")
    return SimpleNamespace(folder=folder, out=folder / "out", report=report, comparison=comparison, grid=grid)


@pytest.fixture
def math_run(made_up_report, tmp_path):
    """Two methods of one family and one without, on one split without styles."""
    made = made_up_report(tmp_path, splits=("math",), prompts=8, styles=())
    made.method("base")
    made.method("base_again", model="base")
    made.method("grpo", skill=1)
    made.method("dph_js", skill=1.5, family="DPH-JS", eta=0.2, label="DPH-JS")
    made.method("dph_js_low", skill=1.5, family="DPH-JS", eta=0, label="eta 0")
    return made


def samples_of(run, name: str) -> list[dict]:
    return [json.loads(line) for line in (run.folder / f"{name}.0.jsonl").read_text().splitlines()]


def test_report_json(run):
    report = run.report
    assert json.loads((run.out / "report.json").read_text()) == report
    jsonschema.validate(report, REPORT)
    assert SUMMARY_PROPERTIES.keys() - {"n", "prompts", "groups"} <= report["_definitions"].keys()
    assert sorted(path.name for path in run.out.iterdir()) == ["answers.svg", "report.html", "report.json"]
    grpo, dph_js = (report[name]["in_domain"] for name in ("grpo", "dph_js"))
    assert grpo["style_entropy"] == [0, 0, 0] and grpo["style_share"]["JOIN"] == 1 and dph_js["style_entropy"][0] > 1
    accuracy = np.mean([sample["acc"] for sample in samples_of(run, "base")])
    base = report["base"]["in_domain"]
    assert base["pass@k"]["1"][0] == base["mean@k"]["16"][0] == pytest.approx(accuracy)
    verdicts = {(c["split"], c["method"], c["predicate"]): c["verdict"] for c in report["_claims"]}
    assert verdicts["in_domain", "grpo", "ends in one style"] == "supported"
    assert verdicts["in_domain", "dph_js", "keeps several styles"] == "supported"
    assert verdicts["out_of_domain", "grpo", "higher Pass@1 than the base"] == "supported"
    assert ("out_of_domain", "grpo", "ends in one style") not in verdicts
    # Where a method with a divergence is worse is said like where it is better, in and out of domain.
    judged = {f"higher {m} than GRPO" for m in ("greedy accuracy", "Pass@1", "Pass@8", "Pass@16", "keep rate")}
    for split in ("in_domain", "out_of_domain"):
        of_grpo = {p: v for (s, m, p), v in verdicts.items() if (s, m) == (split, "dph_f") and p.endswith("GRPO")}
        assert of_grpo.keys() == judged and of_grpo["higher Pass@1 than GRPO"] == "not supported"
        assert set(of_grpo.values()) <= {"not supported", "inconclusive"}
    lines = as_text(comparisons_table(report)).splitlines()
    line = next(line for line in lines if "DPH-F: higher Pass@1 than GRPO" in line)
    assert line.count(" not supported") == 2
    tests = {(t["split"], t["first"], t["second"], t["metric"]): t for t in report["_tests"]}
    assert tests["in_domain", "grpo", "base", "mean@16"]["p_holm"] < 0.01
    assert ("in_domain", "grpo", "base_again", "keep_rate") in tests
    assert tests["in_domain", "dph_js", "grpo", "style_entropy"]["difference"][0] > 1
    assert all(test["p"] <= test["p_holm"] <= 1 for test in tests.values())


def test_page(run):
    page = (run.out / "report.html").read_text()
    assert page.lstrip().startswith("<!doctype html>") and len(page) < 1_000_000
    assert not re.search(r"src=|@import|url\((?!#)", page)
    opened, closed = (Counter(re.findall(tag, page)) for tag in (r"<(\w+)(?:\s[^<>]*[^<>/])?>", r"</(\w+)>"))
    assert opened - closed == {"meta": 3} and not closed - opened
    ids, references = (re.findall(rf'\s(?:{name})="([^"]*)"', page) for name in ("id", "href|src|xlink:href"))
    assert len(ids) == len(set(ids)) and {r for r in references if not r.startswith("#")} == set(LINKS.values())
    assert {r.removeprefix("#") for r in references if r.startswith("#")} <= set(ids)
    # Light and dark: Pass@k of two splits and their groups (2 and 4 values), three other figures of both, two training
    # curves. And the grid's panels, in two blocks each.
    assert page.count("<svg") == 2 * (2 * 7 + 3 * 2 + 2) + 2 * 2 * 4
    text = unescape(re.sub(r"<[^>]*>", " ", page))
    for expected in (
        "A & B", "DPH-JS <η 0.2>", "75 s", "ends in one style", "Pass@16", "seed", "0.0003", "3 simple questions",
        "GRPO is right more often than the base, but ends in one style.",
        "DPH-F keeps several styles, but is below GRPO in",
    ):  # fmt: skip
        assert expected in text
    assert '<b class="no">not supported</b>' in page and '<b class="yes">supported</b>' in page


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
        assert {"greedy", "keep_rate", "lost", "newly_solved", "style_entropy"} <= found.keys()
    several = ["hard", "not hard", "simple", "moderate", "challenging", "not difficulty"]
    assert list(group_titles(summary).values()) == several
    assert list(group_titles({"groups": {"hard": groups["hard"]}}).values()) == ["hard", "plain"]
    in_style = [sample["acc"] for sample in samples if sample["pred"].startswith("/*JOIN*/")]
    accuracies = summary["style_accuracy"]
    assert accuracies["JOIN"][0] == pytest.approx(np.mean(in_style)) and accuracies["CTE"] is None


def test_the_grid_and_the_browser_show_the_samples(run):
    comparison, grid = run.comparison, run.grid
    base, grpo = (comparison.samples[name]["in_domain"] for name in ("base", "grpo"))
    assert [name for name, _ in grid.blocks] == ["hard", "plain"] and sorted(grid.order) == list(range(PROMPTS))
    assert (base.ids[grid.order[:4]] % 3 == 1).all()  # ids from 100: every third is hard
    solved = base.correct.sum(axis=1)[grid.order]
    assert (np.diff(solved[:4]) <= 0).all() and (np.diff(solved[4:]) <= 0).all()
    # GRPO's right answers are all in the first style: as many cells of its colour as right answers.
    panel = grid.panel(comparison, "grpo", Look("GRPO", COLOURS[0], ""))
    right, found = int(grpo.correct.sum()), Counter()
    for block in panel.blocks:
        for fill, path in re.findall(r'fill="(.*?)" d="(.*?)"', block.drawing):
            found[fill] += sum(map(int, re.findall(r"h(\d+)v", path)))
    assert found == {grid.fills["JOIN"]: right, grid.fills["wrong"]: PROMPTS * N - right}

    names = {"base": "Base", "grpo": "GRPO"}
    text = browser_data(comparison, {"In domain": grid}, names)
    assert "</" not in text
    data = json.loads(text)
    [split] = data["splits"]
    assert split["models"] == ["Base", "GRPO"] and len(split["questions"]) == PROMPTS
    position = int(grid.order[0])
    question = split["questions"][0]
    assert question["text"] == f"Which </script> {position} of in_domain?"
    assert data["texts"][question["reference"]] == f"SELECT {position}\nFROM t\nWHERE a = 1"
    assert len(question["responses"][1]) == 8 and question["cells"][1].count(0) == grpo.correct[position].sum()
    number, kind, style, verdict, rows = question["responses"][1][0]
    assert (data["texts"][number], style, rows) == ("SELECT 1", 0, None)  # the comment is the style
    assert (verdict, kind) == (("correct", 0) if grpo.correct[position, 0] else ("wrong", len(STYLES) + 1))
    rows_of = {(f["group"], f["name"]): f["rows"] for f in split["filters"]}
    assert rows_of["Hard", "hard"] == [0, 1, 2, 3] and len(rows_of["Family", "any"]) == 3
    lost = base.correct[:, :8].any(axis=1) & ~grpo.correct.any(axis=1)
    assert (
        rows_of.get(("Lost (base solved it, no sample correct)", "by GRPO"), [])
        == np.flatnonzero(lost[grid.order]).tolist()
    )


def test_the_grid_is_a_picture_of_its_own(run):
    picture, svg = ElementTree.fromstring(answer_figure(run.comparison)), "{http://www.w3.org/2000/svg}"
    texts = [text.text for text in picture.iter(f"{svg}text")]
    assert texts[: len(STYLES)] == list(STYLES) and texts.index("Base") < texts.index("GRPO")
    assert texts.count("4 hard questions") == texts.count(f"{PROMPTS - 4} plain questions") == 3
    blocks = picture.findall(f"{svg}svg")
    # Within the picture, none over another: three columns of two.
    assert len({(block.get("x"), block.get("y")) for block in blocks}) == len(blocks) == 6
    assert max(float(block.get("x")) + float(block.get("width")) for block in blocks) < float(picture.get("width"))
    assert max(float(block.get("y")) + float(block.get("height")) for block in blocks) < float(picture.get("height"))
    assert "prefers-color-scheme: dark" in picture.find(f"{svg}style").text


def test_the_browser_holds_fewer_questions_if_their_texts_are_long(run, monkeypatch):
    monkeypatch.setattr(question_browser, "MOST_CHARACTERS", 100)
    [split] = json.loads(browser_data(run.comparison, {"In domain": run.grid}, {"base": "Base"}))["splits"]
    rows = [question["row"] for question in split["questions"]]
    # Each brings a reference of 27 characters or 28 beside "SELECT 1": the fourth is the first beyond the limit.
    assert len(rows) == 4 and rows == sorted(rows) and split["of"] == PROMPTS
    for row, question in zip(rows, split["questions"], strict=True):
        assert question["text"] == f"Which </script> {run.grid.order[row]} of in_domain?"
    assert [f["rows"] for f in split["filters"] if f["name"] == "All questions"] == [[0, 1, 2, 3]]


def test_a_large_split_is_shown_in_part(made_up_report, tmp_path):
    made = made_up_report(tmp_path, splits=("math",), prompts=MOST_QUESTIONS + 5, styles=(), n=8, greedy=False)
    made.method("base")
    comparison = compare(read_spec(made.write()))
    grid = AnswerGrid.of_split(comparison, "math")
    assert len(set(grid.order)) == MOST_QUESTIONS and grid.of == MOST_QUESTIONS + 5
    right = comparison.samples["base"]["math"].correct
    assert list(grid.fills)[0] == "correct" and ((grid.kinds["base"] == 0) == right).all()
    write_report(read_spec(made.write()), tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert f"{MOST_QUESTIONS} of the {MOST_QUESTIONS + 5} questions" in page
    assert "Question 100" in page  # without data files, its id


def test_questions_must_be_those_of_the_samples(math_run):
    math_run.ask()
    math_run.content["groups"] = ["colour"]
    with pytest.raises(UserError, match="groups have colour, which no question has"):
        compare(read_spec(math_run.write()))
    math_run.content["questions"]["math"] = ["missing.parquet"]
    with pytest.raises(UserError, match="missing.parquet cannot be read as parquet"):
        compare(read_spec(math_run.write()))
    math_run.prompts = 5
    math_run.ask()
    with pytest.raises(UserError, match="math.parquet lacks 3 of the 8 sampled questions, the first with id 105"):
        compare(read_spec(math_run.write()))


def test_styles_are_read_from_the_structure_if_no_comment_says_them(made_up_report, tmp_path):
    made = made_up_report(tmp_path, prompts=3)
    made.method("base")
    assert compare(read_spec(made.write())).spec.styles_by == "prefix"
    for path in tmp_path.glob("*.jsonl"):
        path.write_text(re.sub(r"/\*\w+\*/ ", "", path.read_text()))
    assert compare(read_spec(made.write())).spec.styles_by == "structure"


def test_command_line(math_run, tmp_path, capsys):
    arguments = ["--spec", str(math_run.write()), "--out", str(tmp_path / "out")]
    assert main(arguments) == 0
    assert str(tmp_path / "out" / "report.html") in capsys.readouterr().out
    page = (tmp_path / "out" / "report.html").read_text()
    assert main([*arguments, "--check"]) == 1 and (tmp_path / "out" / "report.html").read_text() == page
    assert capsys.readouterr().err.count("Check failed:") == 1
    (tmp_path / "spec.json").write_text("{")
    with pytest.raises(SystemExit) as end:
        main(["--spec", str(tmp_path / "spec.json"), "--out", str(tmp_path / "none")])
    assert end.value.code == 2 and "spec.json is invalid: it is not JSON" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_task_without_styles_greedy_or_logs(made_up_report, tmp_path):
    made = made_up_report(tmp_path, splits=("math",), prompts=4, styles=(), greedy=False)
    made.method("base")
    made.method("grpo", skill=1)
    # The reference query of every wrong sample returned nothing to compare.
    samples = tmp_path / "grpo.0.jsonl"
    samples.write_text(samples.read_text().replace('"mismatch"', '"gold_empty"'))
    report = write_report(read_spec(made.write()), tmp_path / "out")
    summary = report["grpo"]["math"]
    for name in ("greedy", "styles", "style_entropy", "style_share", "distinct_correct", "unparsed_sql"):
        assert summary[name] is None
    assert {c["verdict"] for c in report["_claims"] if "greedy" in c["predicate"]} == {"not measured"}
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<svg") == 2 * 3 and "samples the reference query itself failed" in page


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"temperature": 0.6}, "sampled with temperature 0.6 and .* with 1.0"),
        ({"model_hash": "another"}, "one method but to two models"),
    ],
)
def test_methods_that_cannot_be_compared(math_run, tmp_path, changed, sentence):
    path = tmp_path / "grpo.0.meta.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(UserError, match=sentence):
        write_report(read_spec(math_run.write()), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_second_draw_and_greedy_files_are_checked(math_run, tmp_path):
    methods = math_run.content["methods"]
    right = methods["base_again"]
    for other, sentence in (("base", "is the same draw as .* both with seed"), ("grpo", "belongs to another model")):
        methods["base_again"] = methods[other]
        with pytest.raises(UserError, match=sentence):
            compare(read_spec(math_run.write()))
    methods["base_again"] = right
    methods["grpo"]["splits"]["math"]["greedy"] = "grpo.0.jsonl"
    with pytest.raises(UserError, match="16 greedy responses per prompt"):
        compare(read_spec(math_run.write()))


BASE_ONLY = {"base": {"splits": {"s": {"samples": "x"}}}}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"titel": "x"}, "the key titel is unknown"),
        ({"styles_by": "colour"}, "styles_by: .* 'prefix' or 'structure', not 'colour'"),
        ({"methods": {}}, "no method 'base'"),
        ({"methods": {"base": {"splits": {"s": {"greedy": "x"}}}}}, "methods.base.splits.s.samples is missing"),
        (
            {"methods": BASE_ONLY | {"grpo": {"splits": {"t": {"samples": "x"}}}}},
            "method 'grpo' has the splits .'t'. and 'base' has .'s'.",
        ),
        ({"eta": 0.1}, "methods.grpo: it has only one of 'family' and 'eta'"),
        ({"checkpoints": {"0": BASE_ONLY["base"]}}, "methods.grpo.checkpoints.0"),
        ({"checkpoints": {"20": {"splits": {"t": {"samples": "x"}}}}}, "has the split 't', which is none of the"),
    ],
)
def test_invalid_specifications(tmp_path, changed, sentence):
    content = {"title": "t", "summary": "s", "methods": BASE_ONLY}
    of_method = changed.keys() & {"eta", "checkpoints"}
    content |= {"methods": BASE_ONLY | {"grpo": BASE_ONLY["base"] | changed}} if of_method else changed
    (tmp_path / "spec.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=f"spec.json is invalid: .*{sentence}"):
        read_spec(tmp_path / "spec.json")


# ------------------------------------------------------------------------------------------------------------- claims


def test_verdicts_go_by_the_side_of_the_whole_interval():
    for value, expected in (
        ([0.05, 0.02, 0.08], "supported"),
        ([0.05, 0.0, 0.08], "inconclusive"),
        ([0.0, 0.0, 0.0], "inconclusive"),
        ([-0.05, -0.08, -0.02], "not supported"),
        (None, "not measured"),
    ):
        assert verdict(value, 0.0, above=True) == compared(value, 0.05) == expected
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
    assert failure == "grpo has a Pass@32 of 0.860 in domain, the base 0.900: not 0.05 below it."


# ----------------------------------------------------------------------------------------------------------- headline


@pytest.fixture(scope="module")
def measured(made_up_report, tmp_path_factory):
    """A base, GRPO and DPH-JS that differ in nothing but chance."""
    made = made_up_report(tmp_path_factory.mktemp("measured"), prompts=6, splits=("in_domain",), styles=())
    for name in ("base", "grpo", "dph_js"):
        made.method(name)
    return compare(read_spec(made.write()))


def title_of(comparison, **changed: tuple[list[float], float]) -> str:
    """The headline if the tests of `first_second_metric` had this difference and p_holm, and no other did."""
    tests = []
    for test in paired_tests(comparison):
        name = f"{test.first}_{test.second}_{test.metric.replace('@', '')}"
        difference, p = changed.get(name, ([0.2, 0.1, 0.3], 0.06))
        tests.append(PairedTest(test.split, test.first, test.second, test.metric, 6, difference, p, p))
    return Headline(comparison, claims(comparison, tests), tests, method_looks(comparison.spec.short_names)).title()


NOTHING = "No difference between the base, GRPO and DPH-JS is beyond chance on these 6 questions."
UP, DOWN, INCLUDES_0 = ([0.2, 0.1, 0.3], 0.01), ([-0.2, -0.3, -0.1], 0.01), ([0.2, 0.0, 0.3], 0.01)


@pytest.mark.parametrize(
    ("changed", "title"),
    [
        ({}, NOTHING),
        ({"grpo_base_mean16": INCLUDES_0}, NOTHING),
        ({"grpo_base_mean16": DOWN}, "GRPO is right less often than the base."),
        (
            {"grpo_base_mean16": UP, "grpo_base_pass16": DOWN},
            "GRPO is right more often than the base, but solves fewer questions in 16 tries.",
        ),
        (
            {"grpo_base_pass16": DOWN, "dph_js_base_mean16": UP, "dph_js_grpo_pass16": UP, "dph_js_grpo_greedy": DOWN},
            "GRPO solves fewer questions in 16 tries than the base. DPH-JS solves more questions in 16 tries than "
            "GRPO, but is below it in greedy accuracy.",
        ),
        (
            {"dph_js_grpo_greedy": DOWN, "dph_js_grpo_mean16": DOWN},
            "DPH-JS is below GRPO in Pass@1 and greedy accuracy.",
        ),
    ],
)  # fmt: skip
def test_the_headline_says_what_is_significant_and_nothing_else(measured, changed, title):
    assert title_of(measured, **changed) == title


def test_laying_out_sql_changes_white_space_alone():
    assert formatted_sql("/*IN*/ SELECT a FROM b WHERE c = 'x  y'") == "SELECT a\nFROM b\nWHERE c = 'x  y'"
    broken = "SELECT 'C:\\' FROM b WHERE c = 'd"
    assert "".join(formatted_sql(broken).split()) == "".join(broken.split())


# ------------------------------------------------------------------------------------------------------------ figures


def test_transitions_by_hand():
    nan = np.nan
    shares = transition_shares(np.array([1, 0.5, nan, nan]), np.array([nan, nan, 0.25, 0]))
    assert shares == {"retained": 0.375, "forgotten": 0.125, "gained": 0.0625, "unsolved": 0.4375}
    assert transition_shares(np.full(3, nan), np.full(3, nan)) is None


def test_the_noise_floor_is_the_second_draw_or_the_later_samples(math_run, tmp_path):
    def rows(spec):
        [group] = [group for group in Figures(compare(spec)).of_evaluation({}) if group.title.startswith("Retained")]
        return [part.split(":")[0] for part in group.panels[0].description.split("; ")]

    assert rows(read_spec(math_run.write())) == ["Base, second draw", "GRPO", "DPH-JS", "eta 0"]
    for name in ("base_again", "dph_js", "dph_js_low"):
        del math_run.content["methods"][name]
    assert rows(read_spec(math_run.write())) == ["Base", "GRPO"]
    math_run.content["solved_in"] = 16  # no later samples are left
    write_report(read_spec(math_run.write()), tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "There is no noise floor" in page and "The first row is" not in page


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
    sentence = "grpo_40.0.jsonl and .* hold different prompts .0 missing, 1 more; the first adds id 108"
    with pytest.raises(UserError, match=sentence):
        write_report(read_spec(math_run.write()), tmp_path / "none")


def test_a_family_needs_two_etas(math_run):
    spec = read_spec(math_run.write())
    both = {"DPH-JS": {0.0: ["dph_js_low"], 0.2: ["dph_js"]}}
    assert eta_families(spec, spec.methods) == both and eta_families(spec, ["base", "dph_js"]) == {}
    math_run.content["methods"]["dph_js_low"]["eta"] = 0.2
    assert eta_families(read_spec(math_run.write()), spec.methods) == {}


def test_methods_are_told_apart():
    looks = method_looks({name: name for name in ["base", "base_again", "grpo", "dph_js", *map(str, range(10))]})
    assert len({look.colour for look in looks.values()}) == len(looks) == 14
    assert len({(look.colour, look.marker) for look in looks.values()}) == 14
    assert len({colour.variable for colour in COLOURS}) == len(COLOURS)
