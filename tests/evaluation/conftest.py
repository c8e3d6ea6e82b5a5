"""Two reports of made-up samples."""

import json
from types import SimpleNamespace

import pytest

from rl.evaluation.analysis.comparison import compare
from rl.evaluation.report.answer_grid import AnswerGrid
from rl.evaluation.report.write import write_report
from rl.evaluation.spec import read_spec

STYLES = ("JOIN", "IN", "EXISTS", "CTE", "AGG")
PROMPTS, N = 12, 16


@pytest.fixture(scope="session")
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
    metrics = ({"critic/rewards/mean": step / 10, "dph/loss": 1 / step} for step in range(1, 6))
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
