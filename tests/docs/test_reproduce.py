"""docs/howto/reproduce.md has every row of the paper's tables, with its figures and the command of its method."""

import json
import re

import pytest

from tests.programs import REPOSITORY

TABLES = json.loads((REPOSITORY / "rl" / "evaluation" / "paper" / "paper.json").read_text())["tables"]
EXPERIMENTS = {
    "llama-sql": ("bash scripts/llama/", ""),
    "omnisql-32b": ("bash scripts/llama/", " experiment=omnisql_sql"),
    "llama-math": ("bash scripts/qwen/", " experiment=llama_math"),
    "qwen-math": ("bash scripts/qwen/", ""),
}
# The eta of the paper's settings, for rows whose label names none.
COEFFICIENTS = {"rkl": "0.01", "dph_f": "0.01", "dph_js": "0.2", "dph_js_def": "0.2"}
# Tables of models that another table trains.
WITHOUT_COMMANDS = {("3", "llama-sql"), ("8", "llama-math"), ("8", "qwen-math")}

ROWS = [
    pytest.param(table, row, id=f"table {table['number']}, {table['setting']}, {row['method']}")
    for table in TABLES
    for row in table["rows"]
    if row["group"] != "Other Models"
]


def page_rows() -> list[list[str]]:
    lines = (REPOSITORY / "docs" / "howto" / "reproduce.md").read_text().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]


def numbers(cells: list[str]) -> list[float]:
    return [float(cell) for cell in cells if re.fullmatch(r"\d+(\.\d+)?", cell)]


@pytest.mark.parametrize(("table", "row"), ROWS)
def test_the_row_is_there_with_the_papers_figures(table, row):
    figures = [value for value in (*row["values"], row.get("average")) if value is not None]
    found = [cells for cells in page_rows() if numbers(cells) == figures]
    assert found, figures
    if row["method"] == "base" or (table["number"], table["setting"]) in WITHOUT_COMMANDS:
        return
    [command] = {cell.strip("`") for cells in found for cell in cells if cell.startswith("`")}
    script, experiment = EXPERIMENTS[table["setting"]]
    assert command.startswith(script) and command.endswith(experiment)
    words = command.removesuffix(experiment).split("/")[-1].split()
    assert words[1] == row["method"]
    assert words[2:] == coefficient_and_alpha(row)


def coefficient_and_alpha(row: dict) -> list[str]:
    """The script's arguments after the name: eta and alpha, from the row's label or the paper's settings."""
    label = row["label"]
    if label.startswith("α = "):
        return ["0.01", label.removeprefix("α = ")]
    if label.startswith("η = "):
        return [label.removeprefix("η = ")]
    return [COEFFICIENTS[row["method"]]] if row["method"] in COEFFICIENTS else []
