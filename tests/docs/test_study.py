"""The study that the README shows is the one in docs/study, and its means are those of the runs."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "docs" / "study"
STUDY = json.loads((FOLDER / "study.json").read_text())


def rows(text: str) -> dict[str, list[str]]:
    """{first cell: the others} of every table, a later row of one name in the place of an earlier one."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1:] for cells in lines}


@pytest.mark.parametrize("method", STUDY["methods"])
def test_the_readme_has_the_studys_rows(method):
    label, columns = STUDY["labels"][method], STUDY["methods"][method]
    shown = rows((REPOSITORY / "README.md").read_text())[label]
    assert rows((FOLDER / "study.md").read_text())[label] == shown
    assert len(shown) == len(columns)
    for cell, (column, found) in zip(shown, columns.items(), strict=True):
        values = found["values"]
        assert len(values) == len(STUDY["seeds"]) == 3, column
        half = stats.t.ppf(0.975, 2) * np.std(values, ddof=1) / np.sqrt(3)
        assert cell == f"{np.mean(values):.3f} ± {half:.3f}"


def test_all_methods_and_their_figure_are_there():
    from rl.demo.study import METHODS

    assert list(STUDY["methods"]) == list(METHODS) and STUDY["steps"] == 80
    figure = (FOLDER / "study.svg").read_text()
    assert figure.lstrip().startswith("<?xml") and "docs/study/study.svg" in (REPOSITORY / "README.md").read_text()


def test_the_readme_has_the_recorded_demos_values():
    demo = json.loads((FOLDER / "demo.json").read_text())
    lines = [line for line in (REPOSITORY / "README.md").read_text().splitlines() if line.startswith("| ")]
    for method, label in {"base": "base", "grpo": "GRPO", "dph_js": "DPH-JS, eta 0.2"}.items():
        shown = next(line for line in lines if line.startswith(f"| {label} |")).strip("| ").split(" | ")[1:]
        for cells, split in ((shown[:5], "in_domain"), (shown[7:], "out_of_domain")):
            found = demo[method][split]
            values = [found["greedy"], *(found["pass@k"][k] for k in ("1", "8", "32")), found["keep_rate"]]
            assert cells == [f"{value:.3f}" for value, *_ in values]
