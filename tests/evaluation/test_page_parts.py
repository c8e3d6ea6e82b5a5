"""The parts of a page: answer grid, question browser, figures, tiles."""

import json
import re
from collections import Counter

import numpy as np

from rl.evaluation.analysis.comparison import compare
from rl.evaluation.analysis.paired_test import paired_tests
from rl.evaluation.report import question_browser
from rl.evaluation.report.answer_grid import shown_methods
from rl.evaluation.report.figures import Figures
from rl.evaluation.report.question_browser import browser_data, formatted_sql
from rl.evaluation.report.theme import COLOURS, Look, method_looks
from rl.evaluation.report.tiles import tiles
from rl.evaluation.spec import read_spec
from rl.evaluation.table import p_in_words
from tests.evaluation.conftest import PROMPTS, STYLES, N


def test_the_grid_shows_the_samples(run):
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


def test_the_panels_are_the_first_method_and_the_best_by_pass_at_8_that_saw_no_gold(made_up_report, tmp_path):
    made = made_up_report(tmp_path, splits=("math",), prompts=30, styles=(), n=8, greedy=False)
    for name, skill in {"base": -4, "grpo": -4, "worse": -4, "best": -1, "told": 9, "dph_js": -2}.items():
        made.method(name, skill=skill, **({"role": "gold"} if name == "told" else {}))
    comparison = compare(read_spec(made.write()))
    solved = {name: of["math"]["pass@k"]["8"][0] for name, of in comparison.summaries.items()}
    assert solved["told"] > min(solved["best"], solved["dph_js"]) > max(solved["worse"], solved["grpo"])
    assert shown_methods(comparison) == ["base", "grpo", "best", "dph_js"]


def test_the_browser_shows_the_samples(run):
    comparison, grid = run.comparison, run.grid
    base, grpo = (comparison.samples[name]["in_domain"] for name in ("base", "grpo"))
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
    found = rows_of.get(("Lost (the base solved it in 8 samples, no sample correct)", "by GRPO"), [])
    assert found == np.flatnonzero(lost[grid.order]).tolist() and split["start"] == 0  # no other method is there


def test_the_browser_holds_fewer_questions_if_their_texts_are_long(run, monkeypatch):
    monkeypatch.setattr(question_browser, "MOST_CHARACTERS", 1)
    grids = {"In domain": run.grid, "Again": run.grid}
    found = json.loads(browser_data(run.comparison, grids, {"base": "Base"}))["splits"]
    assert [len(split["questions"]) for split in found] == [1, 1]  # a split without one ended the report
    monkeypatch.setattr(question_browser, "MOST_CHARACTERS", 100)
    [split] = json.loads(browser_data(run.comparison, {"In domain": run.grid}, {"base": "Base"}))["splits"]
    rows = [question["row"] for question in split["questions"]]
    # Each brings a reference of 27 characters or 28 beside "SELECT 1": the fourth is the first beyond the limit.
    assert len(rows) == 4 and rows == sorted(rows) and split["of"] == PROMPTS
    assert [f["rows"] for f in split["filters"] if f["name"] == "All questions"] == [[0, 1, 2, 3]]


def test_laying_out_sql_changes_white_space_alone():
    assert formatted_sql("/*IN*/ SELECT a FROM b WHERE c = 'x  y'") == "SELECT a\nFROM b\nWHERE c = 'x  y'"
    broken = "SELECT 'C:\\' FROM b WHERE c = 'd"
    assert "".join(formatted_sql(broken).split()) == "".join(broken.split())
    for deep in (f"SELECT {'+'.join(['a'] * 150)} FROM b", f"SELECT {'(' * 150}a{')' * 150} FROM b"):
        assert formatted_sql(deep) == deep


def test_the_noise_floor_is_the_second_draw_or_the_later_samples(math_run):
    def drawn(spec):
        [group] = [group for group in Figures(compare(spec)).all({}, {}) if group.title.startswith("Retained")]
        return group.panels[0].drawing

    assert "Base, second draw" in drawn(read_spec(math_run.write()))
    del math_run.content["methods"]["base_again"]
    assert "Base, later samples" in drawn(read_spec(math_run.write()))
    math_run.content["solved_in"] = 16  # no later samples are left
    found = drawn(read_spec(math_run.write()))
    assert "Base" not in found and "GRPO" in found


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
