"""Parquets of prompts: counts, lengths, duplicates, rows that the sampler refuses, leaks."""

import pyarrow.parquet as pq

from rl.data.split import split, write_split
from tests.sample_files import math_row, write_parquet, write_samples


def test_counts_and_lengths(tmp_path, inspect):
    """Lengths are those of all messages of a prompt; the p99 leaves out one of two hundred."""
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
        "1 row with the id of an earlier one (id 2).",
        "2 rows with the prompt text of another row (for example ids 3 and 4).",
    ]
    no_truth = math_row(2, reward_model={"style": "rule", "ground_truth": None})
    [problem] = problems(math_row(1), no_truth, math_row(3, data_source="chess"), math_row(4, prompt=None))
    assert problem.startswith("The sampler rejects 3 of 4 rows; the first: row 1: reward_model is")
    for count in (-3, 1.5, 2**40, "x"):
        assert problems(math_row(1, base_correct=count)) == ["1 row with a base_correct that is no number of samples."]
    without_id = {name: value for name, value in math_row(1).items() if name != "id"}
    assert problems(without_id) == ["There is no column id."]
    lists = write_parquet(tmp_path / "lists.parquet", math_row(1) | {"id": [1]})
    assert "id is '[1]', not a whole number" in inspect(lists)[1]["problems"][0]
    good = write_parquet(tmp_path / "good.parquet", math_row(1))
    assert "has ids of the type list<" in refused(good, "--against", lists)
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
