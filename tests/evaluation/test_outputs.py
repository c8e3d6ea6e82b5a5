"""A stored base: which files are found, and what cannot be compared; the table at the end of an evaluation."""

from dataclasses import replace

import pytest

from rl.common.errors import UserError
from rl.data.sample_file import SampleWriter
from rl.evaluation.outputs import pass_table, require_base_judged_alike, stored_base
from tests.sample_files import math_row, metadata, record, write_parquet, write_samples

METADATA = metadata(n=2, data_files={"/there/a.parquet": "sha"}, rows=3)
GREEDY = replace(METADATA, n=1, temperature=0.0)
WANTED = {"a.jsonl": replace(METADATA, model="trained", model_hash="other", seed=5), "a.greedy.jsonl": GREEDY}


def write(path, described, missing=0):
    with SampleWriter(path, described) as writer:
        for number in range(described.rows * described.n - missing):
            prompt, sample = divmod(number, described.n)
            writer.append(record(prompt, sample, 1, data_source="amc23"))


@pytest.fixture
def run(tmp_path):
    write(tmp_path / "base" / "a.jsonl", METADATA)
    write(tmp_path / "base" / "a.greedy.jsonl", GREEDY)
    return tmp_path


def test_the_output_folder_or_the_base_in_it_with_its_second_draw(run):
    base = {"base": {name: run / "base" / name for name in WANTED}}
    moved = replace(METADATA, data_files={"/here/b.parquet": "sha"})  # the place of the data does not matter
    assert stored_base(run, WANTED) == stored_base(run / "base", WANTED | {"a.jsonl": moved}) == base
    write(run / "base_again" / "a.jsonl", replace(METADATA, seed=9))
    assert stored_base(run, WANTED)["base_again"] == {"a.jsonl": run / "base_again" / "a.jsonl"}


def test_other_prompts_and_settings(run):
    for wanted in ({"temperature": 0.6}, {"data_files": {"/there/a.parquet": "another"}}, {"overlong_ids": [3]}):
        with pytest.raises(UserError, match=f"it has {next(iter(wanted))}"):
            stored_base(run, WANTED | {"a.jsonl": replace(METADATA, **wanted)})


def test_what_is_not_there_or_not_finished(run):
    with pytest.raises(UserError, match="has no .*b.jsonl: evaluate the base on this split too"):
        stored_base(run, WANTED | {"b.jsonl": METADATA})
    (run / "trained").mkdir()
    for folder in (run / "none", run / "trained"):
        with pytest.raises(UserError, match="has no folder base: give the output folder"):
            stored_base(folder, WANTED)
    (run / "base" / "a.jsonl").unlink()
    write(run / "base" / "a.jsonl", METADATA, missing=1)
    with pytest.raises(UserError, match="holds 5 of 6 samples: re-run that evaluation"):
        stored_base(run, WANTED)


def test_another_scorer_is_rejected_before_sampling(run):
    write(run / "judged" / "base" / "a.jsonl", replace(METADATA, scorer="rules"))
    require_base_judged_alike(run / "judged", ["a.jsonl", "b.jsonl"], "rules")
    require_base_judged_alike(run / "judged", ["b.jsonl"], "other")  # the base lacks it
    require_base_judged_alike(run, ["a.jsonl"], "other")  # an older file does not say what judged it
    with pytest.raises(UserError, match=r"judged .*a.jsonl \(verdict_sha256 was rules and is other\)"):
        require_base_judged_alike(run / "judged" / "base", ["a.jsonl"], "other")


def test_the_table_at_the_end(tmp_path):
    data = write_parquet(tmp_path / "test.parquet", math_row(1), math_row(2))
    sampled = write_samples(tmp_path / "math.jsonl", data, {1: [1, 0, 0, 1], 2: [0, 0, 0, 0]})
    greedy = write_samples(tmp_path / "math.greedy.jsonl", data, {1: [1], 2: [0]}, n=1, temperature=0.0)
    drawn = {"base": {path.name: path for path in (sampled, greedy)}}
    heads, *_, row = pass_table(drawn, solved_in=3).splitlines()
    assert heads.split() == ["model", "split", "prompts", "greedy", "Pass@1", "Pass@3", "Pass@n", "n"]
    assert row.split() == ["base", "math", "2", "0.5000", "0.2500", "0.5000", "0.5000", "4"]
    assert pass_table(drawn, solved_in=8).splitlines()[-1].split()[5] == "-"
