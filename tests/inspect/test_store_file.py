"""The D_pef store: what it holds, decoded examples, top-k, ids against a parquet, faults."""

import math

import pytest
import torch

from rl.common.fingerprint import tokenizer_hash
from tests.sample_files import math_row, write_parquet, write_samples

ROWS = {7: ([3, 4, 5], [5, 6]), 8: ([3, 6, 5, 5], [6, 6, 4, 1]), 9: ([3, 5], [4, 1])}
WORDS = ["<pad>", "<eos>", "<unk>", "<user>", "which", "names", "there"]
TEMPLATE = "<user>{% for m in messages %} {{ m['content'] }}{% endfor %}"


@pytest.fixture(scope="module")
def tokenizer_folder(word_llama, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    word_llama(folder, WORDS, template=TEMPLATE, max_position_embeddings=16)
    return folder


def test_what_a_store_holds(tmp_path, write_store, inspect):
    code, found = inspect(write_store(tmp_path / "x", ROWS))
    [file] = found["files"]
    assert (code, file["kind"], file["rows"]) == (0, "D_pef store", 3)
    assert (file["facts"]["model"], file["facts"]["response_tokens"], file["facts"]["top_k"]) == ("m", 8, 0)
    assert file["facts"]["mean log-prob"] == file["facts"]["lowest log-prob"] == -0.5
    assert file["lengths"]["prompt tokens"] == {"min": 2, "median": 3, "p99": 4, "max": 4}
    assert file["lengths"]["response tokens"] == {"min": 2, "median": 2, "p99": 4, "max": 4}
    assert file["shares"] == {"responses as long as max_response_length": 1 / 3}
    assert file["examples"][0]["response"].startswith("token ids ")


def test_a_store_with_next_tokens(tmp_path, write_store, inspect):
    code, found = inspect(write_store(tmp_path / "x.pt", ROWS, top_k=True))
    assert code == 0 and found["files"][0]["facts"]["top_k"] == 2
    assert found["files"][0]["facts"]["mean probability of the top-k"] == pytest.approx(0.75, abs=1e-3)


def test_examples_are_decoded(tmp_path, write_store, inspect, tokenizer_folder):
    hashed = tokenizer_hash(tokenizer_folder)
    path = write_store(tmp_path / "x.pt", {7: ROWS[7]}, tokenizer_hash=hashed)
    code, found = inspect(path, "--tokenizer", tokenizer_folder)
    assert code == 0
    assert found["files"][0]["examples"] == [{"id": 7, "prompt": "<user> which names", "response": "names there"}]
    code, found = inspect(write_store(tmp_path / "y.pt", {7: ROWS[7]}), "--tokenizer", tokenizer_folder)
    assert code == 1 and "another tokenizer" in found["problems"][0]


def test_prompts_in_tokens(tmp_path, inspect, refused, tokenizer_folder):
    data = write_parquet(tmp_path / "x.parquet", math_row(1, "which names"), math_row(2, "there"))
    _, found = inspect(data, "--tokenizer", tokenizer_folder)
    assert found["files"][0]["lengths"]["prompt tokens"] == {"min": 2, "median": 2, "p99": 3, "max": 3}
    samples = write_samples(tmp_path / "0.jsonl", data, {1: [1] * 4, 2: [0] * 4})
    _, found = inspect(samples, "--tokenizer", tokenizer_folder)
    assert found["files"][0]["lengths"]["prompt tokens"]["max"] == 3  # <user>, question, 1<answer>
    assert "is no folder" in refused(data, "--tokenizer", tmp_path / "none")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_text("{}")
    assert "holds no tokenizer that can be loaded" in refused(data, "--tokenizer", tmp_path)


def test_every_id_of_the_store_is_in_the_parquet(tmp_path, write_store, inspect):
    store = write_store(tmp_path / "x.pt", ROWS)
    whole = write_parquet(tmp_path / "whole.parquet", *(math_row(id) for id in (7, 8, 9, 10)))
    code, found = inspect(store, "--against", whole)
    assert code == 0 and found["files"][0]["facts"]["against"]["only there"] == 1
    part = write_parquet(tmp_path / "part.parquet", *(math_row(id) for id in (7, 8)))
    code, found = inspect(store, "--against", part)
    assert code == 1 and found["files"][0]["problems"] == [f"1 id that {part} does not have (id 9)."]


def test_faults_in_a_store(tmp_path, write_store, inspect):
    path = write_store(tmp_path / "x.pt", ROWS | {10: ([3, 5], [4])}, top_k=True)
    content = torch.load(path, weights_only=True)
    content["ids"][1] = 7
    content["ref_log_probs"][0], content["ref_log_probs"][2] = math.nan, 0.25
    content["top_log_probs"][6, 0] = 0.5
    torch.save(content, path)
    code, found = inspect(path)
    assert code == 1
    assert found["files"][0]["problems"] == [
        "1 row with the id of an earlier one (id 7).",
        "1 row with the prompt text of another row (for example ids 9 and 10).",
        "2 rows with reference log-probs that no distribution has.",
        "1 row with top-k log-probs that no distribution has.",
    ]


def test_an_empty_store(tmp_path, write_store, inspect):
    code, found = inspect(write_store(tmp_path / "x.pt", {}))
    assert code == 1 and found["files"][0]["problems"] == ["There is no row."]


def test_several_responses_to_a_prompt_are_no_fault(tmp_path, inspect):
    from verl.dph.pef.store import Row, Store

    responses = {(7, 5), (7, 6), (8, 4)}
    rows = [Row(id, torch.tensor([id, 3]), torch.tensor([word, 1]), -torch.ones(2)) for id, word in responses]
    Store({}, rows).save(str(tmp_path / "x.pt"))
    data = write_parquet(tmp_path / "x.parquet", math_row(7), math_row(8))
    code, found = inspect(tmp_path / "x.pt", "--against", data)
    [file] = found["files"]
    assert (code, file["rows"], file["facts"]["against"]["only there"]) == (0, 3, 0)
