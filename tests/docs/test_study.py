"""What README.md and docs/explanation/study.md say of the study's seeds is generated from docs/study."""

import json

import pytest

from rl.evaluation.over_seeds import compared
from tests.docs.conftest import site_module
from tests.programs import REPOSITORY

FOLDER = REPOSITORY / "docs" / "study"
RECORDED = ("board", "explored", "seeds", "long", "bases", "methods", "study", "smollm2")
study_page = site_module("study")


@pytest.mark.parametrize("name", RECORDED)
def test_every_recorded_result_follows_from_the_recorded_values(name):
    """Means, intervals, p and corrected p: none was computed by code that has changed since."""
    recorded = json.loads((FOLDER / f"{name}.json").read_text())
    values = {
        method: [{column: found["values"][number] for column, found in of.items()} for number in range(len(seeds))]
        for seeds in (recorded["seeds"],)
        for method, of in (recorded["bases"] | recorded["methods"]).items()
    }
    baselines = list(dict.fromkeys(pair.split(" - ")[1] for pair in recorded["differences"]))
    primary = {tuple(pair.split(" - ")): list(of) for pair, of in recorded.get("primary", {}).items()}
    columns = [column for of in recorded["differences"].values() for column in of]
    about = {"labels": recorded["methods"], "columns": list(dict.fromkeys(columns))}
    found = compared(values, about, baselines, primary)
    # The seeds of older files shared their draws of the base, whose error was in their primary comparisons.
    for part in ("bases", "methods", "differences", *(["primary"] if "drawn_with" in recorded else [])):
        results = found[part]
        for row, column in ((row, column) for row, of in recorded.get(part, {}).items() for column in of):
            stored, result = recorded[part][row][column], results[row][column]
            for fact in stored.keys() - {"values"}:
                assert stored[fact] == pytest.approx(getattr(result, fact), abs=1e-9), (part, row, column, fact)


def test_the_pages_and_pictures_are_those_of_the_recorded_studies(tmp_path, monkeypatch):
    """Whoever changes a recorded file or the tables runs docs/site/study.py again."""
    pages = {name: getattr(study_page, name) for name in ("PAGE", "README", "TUTORIAL")}
    before = {path: path.read_text() for path in (*pages.values(), *sorted(FOLDER.glob("*.svg")))}
    for name, path in pages.items():
        (tmp_path / path.name).write_text(before[path])
        monkeypatch.setattr(study_page, name, tmp_path / path.name)
    for recorded in FOLDER.glob("*.json"):
        (tmp_path / recorded.name).write_text(recorded.read_text())
    monkeypatch.setattr(study_page, "STUDY", tmp_path)
    study_page.main([])
    for path, text in before.items():
        assert (tmp_path / path.name).read_text() == text, path
    marks = ("| GRPO | 0.", "Recipe minus GRPO | ", "| Recipe with anchor")
    assert all(mark in before[pages["PAGE"]] for mark in marks)
    assert "| GRPO | **" in before[pages["README"]] and len(before[pages["README"]].splitlines()) <= 70


def test_a_file_that_is_no_study_is_not_recorded(tmp_path, monkeypatch, capsys):
    (broken := tmp_path / "broken.json").write_text('{"methods": 1')
    monkeypatch.setattr(study_page, "STUDY", tmp_path)
    with pytest.raises(SystemExit):
        study_page.main(["--smollm2", str(broken)])
    assert "is not the study.json" in capsys.readouterr().err and not (tmp_path / "smollm2.json").exists()
