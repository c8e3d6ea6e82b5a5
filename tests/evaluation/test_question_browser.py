"""The question browser's data."""

import json

import numpy as np

from rl.evaluation.report import question_browser
from rl.evaluation.report.question_browser import browser_data, formatted_sql
from tests.evaluation.conftest import PROMPTS, STYLES


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
