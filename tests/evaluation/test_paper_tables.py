"""The paper's figures and ours beside them: structure and values."""

import re

import pytest

from rl.configuration.evaluate import PAPER_EXPERIMENTS
from rl.data.benchmarks import BENCHMARKS
from rl.evaluation.measures import MEASURES
from rl.evaluation.paper.tables import paper_tables, tables_of
from rl.evaluation.table import Cell

ALL = list(BENCHMARKS)


def summary(n: int, value: float) -> dict:
    interval = [value, value - 0.02, value + 0.03]
    powers = [1 << i for i in range(n.bit_length())]
    of_k = {str(k): interval for k in powers}
    of_all = {"pass@k": of_k, "maj@k": of_k, "mean@k": {str(n): interval}}
    return {"n": n, "prompts": 30} | {m.name: interval for m in MEASURES} | of_all


def report(splits=ALL, methods=("base", "base_again", "grpo", "mine")) -> dict:
    """A report.json in which the method number i has the value .5 + i / 100 everywhere."""
    found = {
        name: {split: summary(BENCHMARKS[split].samples, 0.5 + i / 100) for split in splits}
        for i, name in enumerate(methods)
    }
    test = {"first": "grpo", "second": "base", "metric": "pass@8", "prompts": 30, "difference": [0.01, -0.02, 0.04]}
    test |= {"verdict": "inconclusive"}
    tests = [test | {"split": split, "p": 0.25, "p_holm": 0.5} for split in splits]
    return found | {"_labels": {name: name.upper() for name in methods}, "_tests": tests, "_solved_in": 8}


def test_averages_are_those_of_their_rows():
    """A figure that was typed wrongly would break its row's average (as printed, to a hundredth)."""
    rows = [row for table in paper_tables() for row in table.rows if row.average is not None]
    assert len(rows) == 9 + 5 + 6 + 5 + 6
    for row in rows:
        assert sum(row.values) / len(row.values) == pytest.approx(row.average, abs=0.0101), row.label


def test_some_figures_of_the_paper():
    assert {table.setting for table in paper_tables()} == set(PAPER_EXPERIMENTS)
    found = {(t.number, t.setting, r.method, c): v for t in paper_tables() for r in t.rows
             for c, v in zip(t.columns, r.values, strict=True)}  # fmt: skip
    assert found["1", "llama-sql", "dph_js", ("bird", "greedy")] == 62.8
    assert found["1", "llama-sql", "dph_js_def", ("spider", "pass@16")] == 86.7
    assert found["2", "omnisql-32b", "dph_f", ("bird", "pass@8")] == 78.6
    assert found["3", "llama-sql", "rkl", ("aime24", "pass@64")] == 23.3
    assert found["4", "qwen-math", "dph_f", ("aime24", "pass@64")] == 73.33
    assert found["8", "llama-math", "dph_js", ("college_math", "mean@8")] == 29.9


def test_ours_stands_below_the_papers_figure():
    table = tables_of(report(), "llama-sql")[0]
    rows = [(row.label, row.source) for row in table.rows]
    assert rows[:5] == [
        ("Base Model", "paper"), ("Base Model", "ours"), ("RL Models", ""), ("GRPO", "paper"), ("GRPO", "ours"),
    ]  # fmt: skip
    assert rows[-2:] == [("Not in the paper", ""), ("MINE", "ours")]
    assert ("DPH-JS (Divergence Definition)", "") in rows and not any("BASE_AGAIN" in label for label, _ in rows)
    paper, ours = table.rows[3], table.rows[4]
    assert paper.cells[0] == Cell(58.5) and ours.cells[0].value == pytest.approx(52)
    assert (ours.cells[0].low, ours.cells[0].high) == (pytest.approx(50), pytest.approx(55))
    assert table.columns[0] == ("Bird", "Greedy") and "Table 1 of the paper" in table.caption


@pytest.mark.parametrize(
    ("setting", "splits", "numbers"),
    [
        ("llama-sql", ALL, ["1", "3"]),
        ("omnisql-32b", ["bird"], ["2"]),
        ("llama-math", ["aime24"], ["4", "8"]),
        ("qwen-math", ["bird"], []),
        (None, ALL, []),
    ],
)
def test_tables_that_apply(setting, splits, numbers):
    tables = tables_of(report(splits), setting)
    assert [number for table in tables for number in re.findall(r"Table (\d+) of the paper", table.caption)] == numbers
    sources = {row.source for table in tables for row in table.rows}
    assert ("paper" in sources) == bool(numbers)
    assert len(tables) == len(numbers) + 2 * len(splits)


def test_averages_need_every_benchmark():
    whole, part = (tables_of(report(splits), "qwen-math")[0] for splits in (ALL, ALL[:4]))
    assert whole.columns[-1] == ("", "Avg")
    ours = {row.label: row.cells for row in whole.rows if row.source == "ours"}
    assert ours["GRPO"][-1] == Cell(pytest.approx(52), digits=2)
    ours = {row.label: row.cells for row in part.rows if row.source == "ours"}
    assert ours["GRPO"][-1] is None and ours["GRPO"][0] is not None and ours["GRPO"][-2] is None


def test_a_mean_is_of_as_many_samples_as_there_are():
    """Its expectation does not depend on k, as Pass@16's does."""
    made = report(["amc23"])
    made["grpo"]["amc23"] = summary(8, 0.52)
    passed, mean = tables_of(made, "llama-math")[:2]
    assert (passed.columns[2], mean.columns[2]) == (("Pass@16", "AMC23"), ("Mean@16", "AMC23"))
    of_passed, of_mean = ({row.label: row for row in table.rows if row.source == "ours"} for table in (passed, mean))
    assert of_passed["GRPO"].cells[2] is None and of_mean["GRPO"].cells[2].value == pytest.approx(52)
