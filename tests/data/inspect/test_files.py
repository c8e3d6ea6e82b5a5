"""Parquets of prompts: counts, lengths, duplicates, rows that the sampler refuses, leaks.

Samples: the sampler's records and the paper's lines; histogram and Pass@k against hand-computed values.
"""

import json
import math

import pyarrow.parquet as pq
import pytest

from rl.data.metadata_file import metadata_path
from rl.data.split import split, write_split
from tests.sample_files import math_row, record, write_parquet, write_samples

# Correct samples of 4: 4, 3, 2 and 0.
CORRECT = {10: [1, 1, 1, 1], 20: [0, 1, 1, 1], 30: [0, 1, 1, 0], 40: [0, 0, 0, 0]}


def test_counts_and_lengths(tmp_path, inspect):
    """A length is the sum over a prompt's messages; the p99 leaves out one of two hundred."""
    messages = [{"role": "system", "content": "ab"}, {"role": "user", "content": "x" * 97}]
    rows = [math_row(i, f"{i:03d}") for i in range(199)] + [math_row(199, prompt=messages, data_source="aime24")]
    code, found = inspect(write_parquet(tmp_path / "x", *rows))
    [file] = found["files"]
    assert (code, found["problems"], file["kind"], file["rows"]) == (0, [], "prompts", 200)
    assert file["counts"] == {"data_source": {"math500": 199, "aime24": 1}}
    assert file["lengths"] == {"prompt characters": {"min": 3, "median": 3, "p99": 3, "max": 100}}
    columns = {"id": "int64", "data_source": "string", "prompt": "list", "reward_model": "struct"}
    assert file["facts"]["columns"] == columns and file["passes"] is None


def test_problems_of_rows(tmp_path, inspect, refused):
    def problems(*rows) -> list[str]:
        code, found = inspect(write_parquet(tmp_path / "x.parquet", *rows))
        assert code == 1
        return found["files"][0]["problems"]

    same = [math_row(id, "same") for id in (3, 4, 5)]
    assert problems(math_row(1), math_row(2), math_row(2, "other"), *same) == [
        "1 row with the id of an earlier row (id 2).",
        "2 rows with the prompt text of another row (for example ids 3 and 4).",
    ]
    no_truth = math_row(2, reward_model={"style": "rule", "ground_truth": None})
    [problem] = problems(math_row(1), no_truth, math_row(3, data_source="chess"), math_row(4, prompt=None))
    assert problem.startswith("The sampler rejects 3 of 4 rows; the first: row 1: reward_model is")
    for count in (-3, 1.5, 2**40, "x"):
        [problem] = problems(math_row(1, base_correct=count))
        assert problem == "1 row with a base_correct that is not a number of samples."
    without_id = {name: value for name, value in math_row(1).items() if name != "id"}
    assert problems(without_id) == ["There is no column id."]
    lists = write_parquet(tmp_path / "lists.parquet", math_row(1) | {"id": [1]})
    assert "id is '[1]', not a whole number" in inspect(lists)[1]["problems"][0]
    good = write_parquet(tmp_path / "good.parquet", math_row(1))
    pq.write_table(pq.read_table(good).slice(0, 0), good)
    assert inspect(good)[1]["files"][0]["problems"] == ["There is no row."]


def test_a_damaged_page_is_reported_and_the_rest_is_read(tmp_path, inspect):
    path = tmp_path / "x.parquet"
    table = pq.read_table(write_parquet(path, *(math_row(i) for i in range(600))))
    pq.write_table(table, path, row_group_size=256, compression="zstd", use_dictionary=False)
    column = pq.read_metadata(path).row_group(1).column(2)
    content = bytearray(path.read_bytes())
    start = column.data_page_offset
    content[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    path.write_bytes(content)
    code, found = inspect(path)
    assert (code, found["files"][0]["rows"]) == (1, 256)
    [problem] = found["files"][0]["problems"]
    assert problem.startswith("Rows 256 to 599 cannot be read (")


def test_leaks_between_train_and_test(tmp_path, inspect):
    train = write_parquet(tmp_path / "train.parquet", math_row(1), math_row(2, "a"), math_row(3, "b"))
    test = write_parquet(tmp_path / "test.parquet", math_row(3, "c"), math_row(4, "a"), math_row(5, "d"))
    clean = write_parquet(tmp_path / "clean.parquet", math_row(6), math_row(7))
    code, found = inspect(train, test, clean)
    sentence = f"{train} and {test} share 1 id (id 3) and 1 prompt text (for example of id 2 in train.parquet)."
    assert code == 1 and found["problems"] == [sentence]
    assert found["leaks"] == [{"files": [str(train), str(test)], "ids": 1, "texts": 1, "problem": sentence}]
    assert inspect(train, clean)[0] == 0


def test_the_parts_of_a_split(tmp_path, inspect):
    data = write_parquet(tmp_path / "train.parquet", *(math_row(id) for id in (10, 20, 30, 40)))
    correct = {10: [1, 1, 1, 1], 20: [0, 1, 1, 1], 30: [0, 1, 0, 0], 40: [0, 0, 0, 0]}
    samples = write_samples(tmp_path / "0.jsonl", data, correct)
    parts = [tmp_path / f"train_{name}.parquet" for name in ("correct", "wrong")]
    write_split(split(data, [samples], threshold=3, n=4, keep_zero=True), *parts)
    code, found = inspect(*parts)
    near_perfect, explored = found["files"]
    assert code == 0 and near_perfect["kind"] == explored["kind"] == "prompts, a part of the split"
    assert near_perfect["passes"] == {"n": None, "prompts": [0, 0, 0, 1, 1], "pass@k": {}}
    assert explored["passes"]["prompts"] == [1, 1]
    assert inspect(parts[0], data)[1]["leaks"][0]["ids"] == 2


def test_examples_are_chosen_by_the_seed(tmp_path, inspect):
    path = write_parquet(tmp_path / "x.parquet", *(math_row(i) for i in range(50)))

    def chosen(seed, examples=2):
        _, found = inspect(path, "--examples", examples, "--seed", seed)
        return [example["id"] for example in found["files"][0]["examples"]]

    assert chosen(1) == chosen(1) == sorted(chosen(1)) and len(chosen(1)) == 2
    assert chosen(1) != chosen(2) and chosen(1, examples=0) == []


@pytest.fixture
def data(tmp_path):
    return write_parquet(tmp_path / "train.parquet", *(math_row(id) for id in CORRECT))


def all_records(**changes):
    return [record(id, i, acc, **changes) for id, accs in CORRECT.items() for i, acc in enumerate(accs)]


def test_a_finished_file(tmp_path, data, inspect):
    """Pass@2 of 2 correct in 4 is 1 - 1/6; of 3 it is 1."""
    samples = write_samples(tmp_path / "0.jsonl", data, CORRECT)
    code, found = inspect(samples)
    [file] = found["files"]
    assert (code, file["kind"], file["rows"], file["facts"]["prompts"]) == (0, "samples", 16, 4)
    assert {file["facts"][name] for name in ("model", "model_hash", "tokenizer_hash")} == {"/models/base", "mh", "th"}
    assert [file["facts"][name] for name in ("temperature", "top_p", "n", "seed")] == [1.0, 0.95, 4, 7]
    assert file["counts"] == {"data_source": {"math500": 16}, "outcome": {"match": 9, "mismatch": 7}}
    assert file["shares"] == {"truncated": 0.0}
    assert file["lengths"]["input characters"] == dict.fromkeys(("min", "median", "p99", "max"), 25)
    assert file["lengths"]["output characters"] == {"min": 5, "median": 5, "p99": 6, "max": 6}
    assert file["lengths"]["response tokens"] == {"min": 2, "median": 3, "p99": 5, "max": 5}
    assert (file["passes"]["n"], file["passes"]["prompts"]) == (4, [1, 0, 1, 1, 1])
    assert file["passes"]["pass@k"] == pytest.approx({"1": 9 / 16, "2": (1 + 1 + 5 / 6) / 4, "4": 3 / 4})

    metadata_path(samples).unlink()
    code, found = inspect(samples)
    [without_metadata] = found["files"][0]["problems"]
    assert code == 1 and "0.meta.json" in without_metadata and found["files"][0]["passes"]["n"] == 4


def test_what_an_unfinished_file_lacks(tmp_path, data, inspect):
    torn = "The last line is torn, as a stopped sampler leaves it: re-run it to resume."
    samples = [record for record in all_records()[:12] if (record.id, record.sample) != (20, 3)]
    path = write_samples(tmp_path / "0.jsonl", data, samples)
    with open(path, "ab") as file:
        file.write(b'{"id": 20, "sam')
    code, found = inspect(path)
    assert code == 1
    assert found["files"][0]["problems"] == [
        torn,
        "1 of 3 prompts have other samples than 0 to 3 (id 20; the first, id 20, has 3).",
        "There are samples of 3 prompts, but the metadata announce 4.",
    ]
    assert found["files"][0]["passes"]["prompts"] == [0, 0, 1, 0, 1]  # of the prompts with all samples

    path = write_samples(tmp_path / "1.jsonl", data, CORRECT)
    path.write_bytes(path.read_bytes()[:-1])
    assert torn in inspect(path)[1]["files"][0]["problems"]


def test_faults_in_a_file(tmp_path, data, inspect):
    samples = all_records()
    samples[1] = record(10, 1, 1, score=0.5)  # acc 1
    samples[2] = record(10, 2, 1, input="another", truncated=True)
    path = write_samples(tmp_path / "0.jsonl", data, samples)
    lines = path.read_text().splitlines(keepends=True)
    lines[5] = "no JSON\n"
    lines += [lines[0], json.dumps({"id": 10, "output": "x", "score": 1.0}) + "\n"]
    lines += [json.dumps(vars(record(10, 9, 1)) | {"score": score}) + "\n" for score in (10**400, math.inf, math.nan)]
    path.write_text("".join(lines))
    code, found = inspect(path)
    assert code == 1
    assert found["files"][0]["problems"] == [
        "1 line cannot be read as a sample (the first is line 6).",
        "4 samples without a required key, or with a value of another type.",
        "1 sample that repeat an earlier id and sample number.",
        "1 sample with another prompt text than the first sample of the id.",
        "1 sample with an acc that contradicts the score.",
        "1 of 4 prompts have other samples than 0 to 3 (id 20; the first, id 20, has 3).",
    ]
    assert found["files"][0]["shares"] == {"truncated": 1 / 15}
    same = write_samples(tmp_path / "same.jsonl", data, all_records(input="q"))
    assert inspect(same)[1]["files"][0]["problems"] == [
        "3 prompts with the prompt text of another prompt (for example ids 10 and 20)."
    ]


def test_a_prompt_whose_gold_answer_always_fails_is_a_problem(tmp_path, data, inspect):
    """The gold answer of 10 fails in every sample, the one of 20 in one of four."""
    failed = {(10, number): "gold_error" for number in range(4)} | {(10, 2): "gold_timeout", (20, 0): "gold_timeout"}
    records = [
        record(id, i, acc if (id, i) not in failed else 0, outcome=failed.get((id, i), "match" if acc else "mismatch"))
        for id, accs in CORRECT.items()
        for i, acc in enumerate(accs)
    ]
    code, found = inspect(write_samples(tmp_path / "0.jsonl", data, records))
    assert (code, found["files"][0]["problems"]) == (
        1,
        [
            "No reference: the gold answer of 1 prompt failed in every sample (id 10), so that no response is rewarded "
            "there: dph audit finds such prompts."
        ],
    )


def test_the_papers_lines(tmp_path, inspect):
    """No sample numbers, no metadata: n is what most prompts have, and a prompt with fewer is named."""
    lines = [
        {"id": id, "input": f"q{id}", "output": "a", "score": 1.0 if acc else 0.3, "acc": acc}
        for id, accs in {1: [True, True], 2: [False, True], 3: [False]}.items()
        for acc in accs
    ]
    path = tmp_path / "0.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    code, found = inspect(path)
    [file] = found["files"]
    assert (code, file["kind"], file["rows"]) == (1, "samples, in the paper's format", 5)
    assert file["passes"] == {"n": 2, "prompts": [0, 1, 1], "pass@k": {"1": 0.75, "2": 1.0}}
    assert file["problems"] == ["1 of 3 prompts have other samples than 0 to 1 (id 3; the first, id 3, has 1)."]
