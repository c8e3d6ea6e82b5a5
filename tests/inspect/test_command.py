"""The command itself: what it prints for people, its exit codes, files that are none of the project's."""

import json
import pickle
import subprocess
import sys
import zipfile

import pytest
import torch

from rl.data.inspect.command import main
from rl.data.sample_file import metadata_path
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


def test_in_a_process_of_its_own(data, tmp_path):
    """The module's name is that of the standard library's inspect, which everything imports."""
    command = [sys.executable, "-m", "verl.dph.inspect", "--json", str(data)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)["files"][0]["rows"] == 2


def test_files_that_are_none(tmp_path, data, refused):
    path = tmp_path / "x"
    assert "cannot be read (No such file or directory)" in refused(path)
    assert "cannot be read (Is a directory)" in refused(tmp_path)
    path.touch()
    assert "is empty: make it again" in refused(path)
    path.write_bytes(b"\x93NUMPY and more")
    assert "neither parquet, JSON lines nor a torch file" in refused(path)
    path.write_text('{"problem": "1+1", "answer": "2"}\n')
    assert "JSON with the keys problem, answer" in refused(path)
    path.write_text("[" * 100_000)
    assert "neither parquet, JSON lines nor a torch file" in refused(path)
    path.write_text(json.dumps([{"db_id": "shop"}], indent=1))
    assert "a JSON list" in refused(path)
    assert "with the columns a, b" in refused(write_parquet(path, {"a": 1, "b": 2}))
    path.write_bytes(data.read_bytes()[:-20])
    assert "cannot be read as parquet" in refused(path)
    samples = write_samples(tmp_path / "0.jsonl", data, {1: [1] * 4})
    assert "is the metadata of a samples file: name the samples" in refused(metadata_path(samples))
    for other in (samples, path, tmp_path):  # path: a parquet that was cut off
        assert "--against wants the parquet of prompts" in refused(data, "--against", other)


def test_torch_files_that_are_no_store(tmp_path, write_store, refused):
    path = tmp_path / "x.pt"
    torch.save({"weights": torch.zeros(3)}, path)
    assert "is no D_pef store of this version" in refused(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "a")
    assert "a zip archive, but not one of torch.save" in refused(path)
    write_store(path, {1: ([1, 2], [3])})
    path.write_bytes(path.read_bytes()[:-50])
    assert "cut short" in refused(path)


def test_a_pickle_is_never_opened(tmp_path, refused):
    class Harmful:
        def __reduce__(self):
            return (tmp_path / "harm").touch, ()

    path = tmp_path / "x.pt"
    path.write_bytes(pickle.dumps(Harmful()))
    refused(path)
    torch.save(Harmful(), path)
    assert "no pickled objects" in refused(path)
    assert not (tmp_path / "harm").exists()


def test_nothing_is_printed_when_one_of_several_files_is_none(tmp_path, data, refused):
    assert "no.txt" in refused(data, tmp_path / "no.txt")
