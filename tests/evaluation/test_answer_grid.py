"""The answer grid and its picture show the samples."""

import re
from collections import Counter
from xml.etree import ElementTree

import numpy as np
import pytest

from rl.evaluation.analysis.comparison import compare
from rl.evaluation.report.answer_grid import CAPTION, MOST_QUESTIONS, AnswerGrid, answer_files, shown_methods
from rl.evaluation.report.theme import COLOURS, Look
from rl.evaluation.report.write import write_report
from rl.evaluation.spec import read_spec
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


@pytest.mark.parametrize(("name", "columns"), [("answers.svg", 4), ("answers_narrow.svg", 2)])
def test_the_grid_is_a_picture_of_its_own(run, name, columns):
    picture, svg = ElementTree.fromstring(answer_files(run.report["_answers"])[name]), "{http://www.w3.org/2000/svg}"
    texts = [text.text for text in picture.iter(f"{svg}text")]
    assert " ".join(texts).startswith(CAPTION)
    assert {*STYLES} < {*texts} and texts.index("Base") < texts.index("GRPO")
    assert texts.count("4 hard") == texts.count(f"{PROMPTS - 4} plain") == 4
    blocks = picture.findall(f"{svg}svg")
    # Within the picture, none over another: two blocks for each of four panels.
    assert len({(block.get("x"), block.get("y")) for block in blocks}) == len(blocks) == 8
    assert len({block.get("x") for block in blocks}) == columns
    assert max(float(block.get("x")) + float(block.get("width")) for block in blocks) < float(picture.get("width"))
    assert max(float(block.get("y")) + float(block.get("height")) for block in blocks) < float(picture.get("height"))
    assert "prefers-color-scheme: dark" in picture.find(f"{svg}style").text


def test_the_panels_are_the_first_method_and_the_best_by_pass_at_8_that_saw_no_gold(made_up_report, tmp_path):
    made = made_up_report(tmp_path, splits=("math",), prompts=30, styles=(), n=8, greedy=False)
    for name, skill in {"base": -4, "grpo": -4, "worse": -4, "best": -1, "told": 9, "dph_js": -2}.items():
        made.method(name, skill=skill, **({"role": "gold"} if name == "told" else {}))
    comparison = compare(read_spec(made.write()))
    solved = {name: of["math"]["pass@k"]["8"][0] for name, of in comparison.summaries.items()}
    assert solved["told"] > min(solved["best"], solved["dph_js"]) > max(solved["worse"], solved["grpo"])
    assert shown_methods(comparison) == ["base", "grpo", "best", "dph_js"]


def test_a_large_split_is_shown_in_part(made_up_report, tmp_path):
    made = made_up_report(tmp_path, splits=("math",), prompts=MOST_QUESTIONS + 5, styles=(), n=8, greedy=False)
    made.method("base")
    comparison = compare(read_spec(made.write()))
    grid = AnswerGrid.of_split(comparison, "math")
    assert len(set(grid.order)) == MOST_QUESTIONS and grid.of == MOST_QUESTIONS + 5
    right = comparison.samples["base"]["math"].correct
    assert list(grid.fills) == ["correct", "wrong"] and ((grid.kinds["base"] == 0) == right).all()
    write_report(read_spec(made.write()), tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert f"{MOST_QUESTIONS} of the {MOST_QUESTIONS + 5} questions" in page
    assert "Question 100" in page  # without data files, its id
