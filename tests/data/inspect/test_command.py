"""The command: its page, its exit codes, files that it does not know."""

import json

import pytest

from rl.data.inspect.command import main
from rl.data.metadata_file import metadata_path
from tests.sample_files import math_row, record, write_parquet, write_samples


@pytest.fixture
def data(tmp_path):
    return write_parquet(tmp_path / "train.parquet", math_row(1), math_row(2))


def test_the_page(tmp_path, data, capsys):
    output = "begin\n\x1b[31m" + "x" * 5000 + "end"
    samples = [record(1, i, 1, output=output) for i in range(4)] + [record(2, i, 0) for i in range(3)]
    path = write_samples(tmp_path / "0.jsonl", data, samples)
    assert main([str(path), str(data), "--examples", "7"]) == 1
    page = capsys.readouterr().out
    assert "  samples, 7 rows\n" in page and "  prompts, 2 rows\n" in page
    assert "  outcome: match 4, mismatch 3\n" in page and "  truncated: 0.0%\n" in page
    assert "              4        1  " + "#" * 40 in page
    assert "Pass@1 1.0000  Pass@2 1.0000  Pass@4 1.0000" in page
    assert "output: begin\n      \\x1b[31mxxx" in page and "characters ...] xxx" in page and "\x1b" not in page
    problem = "1 of 2 prompts have other samples than 0 to 3 (id 2; the first, id 2, has 3)."
    assert page.endswith(f"\nProblems\n  - {path}: {problem}\n")

    assert main([str(data)]) == 0
    assert capsys.readouterr().out.endswith("\nProblems\n  - none\n")


def test_texts_of_a_file_do_not_steer_the_terminal(tmp_path, data, capsys):
    """Half of a surrogate pair could not be written at all."""
    samples = [record(1, i, 1, data_source="\ud800x", outcome="\x1b[2J") for i in range(4)]
    main([str(write_samples(tmp_path / "0.jsonl", data, samples))])
    page = capsys.readouterr().out
    assert "  data_source: \\ud800x 4\n" in page and "  outcome: \\x1b[2J 4\n" in page


def test_files_that_are_none(tmp_path, data, refused):
    path = tmp_path / "x"
    assert "cannot be read (No such file or directory)" in refused(data, path), "nothing is printed of the others"
    assert f"{tmp_path} is a folder: give a file in it." in refused(tmp_path)
    for content, sentence in (
        (b"", "is empty: make it again"),
        (b"\x93NUMPY and more", "neither parquet, JSON lines nor a torch file"),
        (b'{"problem": "1+1", "answer": "2"}\n', "JSON with the keys problem, answer"),
        (b"[" * 100_000, "neither parquet, JSON lines nor a torch file"),
        (json.dumps([{"db_id": "shop"}], indent=1).encode(), "a JSON list"),
        (write_parquet(path, {"a": 1, "b": 2}).read_bytes(), "with the columns a, b"),
        (data.read_bytes()[:-20], "cannot be read as parquet"),
    ):
        path.write_bytes(content)
        assert sentence in refused(path)
    samples = write_samples(tmp_path / "0.jsonl", data, {1: [1] * 4})
    assert "is the metadata of a samples file: name the samples" in refused(metadata_path(samples))
