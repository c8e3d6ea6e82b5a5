"""`dph inspect`: what it says about prompts, samples and stores, and the files that it does not know."""

import math
import pickle
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
import torch

from rl.data.inspect import main
from rl.data.metadata_file import metadata_path
from rl.data.sample_file import UNJUDGED
from tests.sample_files import math_row, record, write_parquet, write_samples

# Correct samples of 4: 4, 3, 2 and 0.
CORRECT = {10: [1, 1, 1, 1], 20: [0, 1, 1, 1], 30: [0, 1, 1, 0], 40: [0, 0, 0, 0]}


@pytest.fixture
def inspect(capsys):
    """Runs the command: (the lines about the files, the problems)."""

    def run(*arguments) -> tuple[list[str], list[str]]:
        code = main([*map(str, arguments)])
        shown, _, problems = capsys.readouterr().out.partition("\nProblems\n  - ")
        found = problems.rstrip("\n").split("\n  - ")
        assert code == (found != ["none"])
        return [line.strip() for line in shown.splitlines()], found if code else []

    return run


@pytest.fixture
def refused(capsys):
    """Runs the command on a file that it rejects; its sentence."""

    def run(*arguments) -> str:
        with pytest.raises(SystemExit) as stop:
            main([*map(str, arguments)])
        printed = capsys.readouterr()
        assert stop.value.code == 2 and not printed.out and printed.err.count("\n") == 1
        return printed.err

    return run


@pytest.fixture
def data(tmp_path):
    return write_parquet(tmp_path / "train.parquet", *(math_row(id) for id in CORRECT))


def test_problems_of_prompts(tmp_path, inspect, refused):
    path = tmp_path / "x.parquet"
    same = [math_row(id, "same") for id in (3, 4, 5)]
    _, problems = inspect(write_parquet(path, math_row(1), math_row(2), math_row(2, "other"), *same))
    assert problems == [
        f"{path}: 1 row with the id of an earlier row (id 2).",
        f"{path}: Only 4 of 5 prompts have a text of their own.",
    ]
    no_truth = math_row(2, reward_model={"style": "rule", "ground_truth": None})
    _, [problem] = inspect(write_parquet(path, math_row(1), no_truth, math_row(3, data_source="chess")))
    assert problem.startswith(f"{path}: 2 rows cannot be sampled; the first: row 1: reward_model is")
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    assert inspect(path)[1] == [f"{path}: There is no row."]
    write_parquet(path, {name: value for name, value in math_row(1).items() if name != "id"})
    assert "has no column id" in refused(path)


def test_leaks_between_train_and_test(tmp_path, inspect):
    train = write_parquet(tmp_path / "train.parquet", math_row(1), math_row(2, "a"), math_row(3, "b"))
    test = write_parquet(tmp_path / "test.parquet", math_row(3, "c"), math_row(4, "a"), math_row(5, "d"))
    clean = write_parquet(tmp_path / "clean.parquet", math_row(6), math_row(7))
    assert inspect(train, test, clean)[1] == [
        f"{train} and {test} share 1 id (id 3) and 1 prompt text (id 2 in train.parquet)."
    ]


def test_samples(tmp_path, data, inspect):
    """Pass@2 of 2 correct in 4 is 1 - 1/6; of 3 it is 1."""
    lines, problems = inspect(write_samples(tmp_path / "0.jsonl", data, CORRECT))
    assert lines[1:5] == [
        "samples, 16 rows",
        "data_source: math500 16",
        "outcome: match 9, mismatch 7",
        "truncated: False 16",
    ]
    assert "response tokens: 2 to 5, median 3, 99 % up to 5" in lines
    assert [line.split()[:2] for line in lines if line.endswith("#")] == [[str(k), "1"] for k in (0, 2, 3, 4)]
    assert f"Pass@1 {9 / 16:.4f}  Pass@2 {(2 + 5 / 6) / 4:.4f}  Pass@4 0.7500" in lines
    assert {"model: /models/base", "temperature: 1.0", "seed: 7"} <= {*lines} and problems == []


def test_samples_that_no_scorer_has_judged(tmp_path, data, inspect):
    unjudged = {"acc": None, "score": None, "outcome": UNJUDGED}
    samples = [replace(record(id, i, 0), **unjudged) for id in CORRECT for i in range(4)]
    lines, problems = inspect(write_samples(tmp_path / "0.jsonl", data, samples))
    assert "outcome: unjudged 16" in lines and problems == []
    assert not [line for line in lines if line.startswith("Pass@")]


def test_problems_of_samples(tmp_path, data, inspect, refused):
    records = [record(id, i, acc) for id, accs in CORRECT.items() for i, acc in enumerate(accs)]
    for number in range(4):  # the reference of 10 always fails, the one of 20 once
        records[number] = record(10, number, 0, outcome="gold_error")
    records[4] = record(20, 0, 0, outcome="gold_timeout")
    path = write_samples(tmp_path / "0.jsonl", data, records)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:5], b"no JSON\n", *lines[6:12], lines[0], b'{"id": 40, "sam']))
    shown, problems = inspect(path)
    assert [problem.removeprefix(f"{path}: ").partition(":")[0] for problem in problems] == [
        "2 lines cannot be read as a sample (the first is line 6); a stopped sampler leaves its last line torn",
        "1 sample with the id and number of an earlier one.",
        "1 prompt without all samples 0 to 3 (id 20).",
        "There are samples of 3 of 4 prompts.",
        "No reference",
    ]
    assert "the gold answer of 1 prompt failed in every sample (id 10)" in problems[-1]
    assert [line.split()[:2] for line in shown if line.endswith("#")] == [["0", "1"], ["2", "1"]], "of whole prompts"
    metadata_path(path).unlink()
    assert "0.meta.json" in refused(path)


@pytest.fixture
def write_store(tmp_path):
    """Writes (prompt, response) token ids by id; every token has the log-prob -0.5."""
    from verl.dph.pef.store import Row, Store

    def write(rows, **meta):
        made = [
            Row(id, torch.tensor(prompt), torch.tensor(response), torch.full((len(response),), -0.5))
            for id, (prompt, response) in rows
        ]
        Store({"model": "m", "tokenizer_hash": "b"} | meta, made).save(str(tmp_path / "x.pt"))
        return tmp_path / "x.pt"

    return write


def test_a_store(write_store, inspect):
    """Several responses to a prompt are not a problem."""
    rows = [(7, ([3, 4, 5], [5, 6])), (7, ([3, 4, 5], [6, 6, 4, 1])), (9, ([3, 5], [4, 1]))]
    path = write_store(rows)
    lines, problems = inspect(path)
    assert lines[1:4] == [
        "D_pef store, 3 rows",
        "prompt tokens: 2 to 3, median 3, 99 % up to 3",
        "response tokens: 2 to 4, median 2, 99 % up to 4",
    ]
    assert "prompts: 2" in lines and "response: token ids 5 6" in lines and problems == []
    content = torch.load(path, weights_only=True)
    content["ref_log_probs"][0], content["ref_log_probs"][2] = math.nan, 0.25
    torch.save(content, path)
    assert inspect(path)[1] == [f"{path}: 2 rows with log-probs that no distribution has."]
    assert inspect(write_store([]))[1] == [f"{path}: There is no row."]


def test_files_that_are_not_the_projects(tmp_path, data, write_store, refused):
    class Harmful:
        def __reduce__(self):
            return (tmp_path / "harm").touch, ()

    path = tmp_path / "x"
    assert "cannot be read (No such file or directory)" in refused(data, path), "nothing is printed of the others"
    for content, sentence in (
        (b"[" * 100_000, "is not one of the project's files"),
        (pickle.dumps(Harmful()), "is not one of the project's files"),
        (data.read_bytes()[:-20], "cannot be read as parquet"),
        (write_store([(1, ([1, 2], [3]))]).read_bytes()[:-50], "cannot be read"),
    ):
        path.write_bytes(content)
        assert sentence in refused(path)
    torch.save({"weights": torch.zeros(3)}, path)
    assert "is not a D_pef store of this version" in refused(path)
    torch.save(Harmful(), path)
    assert "no pickled objects" in refused(path)
    assert not (tmp_path / "harm").exists()
