"""The answer grid shows the samples."""

import re
from collections import Counter

import numpy as np

from rl.evaluation.analysis.comparison import compare
from rl.evaluation.report.answer_grid import shown_methods
from rl.evaluation.report.theme import COLOURS, Look
from rl.evaluation.spec import read_spec
from tests.evaluation.conftest import PROMPTS, N


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
