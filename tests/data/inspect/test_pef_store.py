"""The D_pef store: what it holds, decoded examples, top-k, faults."""

import math
import pickle
import zipfile

import pytest
import torch

from rl.common.fingerprint import tokenizer_hash
from tests.sample_files import math_row, write_parquet, write_samples

ROWS = {7: ([3, 4, 5], [5, 6]), 8: ([3, 6, 5, 5], [6, 6, 4, 1]), 9: ([3, 5], [4, 1])}
WORDS = ["<pad>", "<eos>", "<unk>", "<user>", "which", "names", "there"]
TEMPLATE = "<user>{% for m in messages %} {{ m['content'] }}{% endfor %}"


@pytest.fixture
def write_store(tmp_path):
    """Writes (prompt, response) token ids by id; every token has the log-prob -0.5, the next tokens .5, .25 and .25."""
    from verl.dph.pef.store import Row, Store

    def write(rows, top_k: bool = False, **meta):
        def top(tokens: int) -> tuple:
            if not top_k:
                return ()
            log_probs = torch.tensor([0.5, 0.25]).log().expand(tokens, 2)
            return torch.tensor([3, 4]).expand(tokens, 2), log_probs, torch.full((tokens,), 0.25).log()

        made = [
            Row(id, torch.tensor(prompt), torch.tensor(response), torch.full((tokens,), -0.5), *top(tokens))
            for id, (prompt, response) in (rows.items() if isinstance(rows, dict) else rows)
            for tokens in [len(response)]
        ]
        known = {"model": "m", "model_hash": "a", "tokenizer_hash": "b", "temperature": 1.0, "max_response_length": 4}
        Store(known | meta, made).save(str(tmp_path / "x.pt"))
        return tmp_path / "x.pt"

    return write


def test_what_a_store_holds(tmp_path, write_store, inspect):
    code, found = inspect(write_store(ROWS))
    [file] = found["files"]
    assert (code, file["kind"], file["rows"]) == (0, "D_pef store", 3)
    assert (file["facts"]["model"], file["facts"]["response_tokens"], file["facts"]["top_k"]) == ("m", 8, 0)
    assert file["facts"]["mean log-prob"] == file["facts"]["lowest log-prob"] == -0.5
    assert file["lengths"]["prompt tokens"] == {"min": 2, "median": 3, "p99": 4, "max": 4}
    assert file["lengths"]["response tokens"] == {"min": 2, "median": 2, "p99": 4, "max": 4}
    assert file["shares"] == {"responses as long as max_response_length": 1 / 3}
    assert file["examples"][0]["response"].startswith("token ids ")

    code, found = inspect(write_store(ROWS, top_k=True))
    facts = found["files"][0]["facts"]
    assert code == 0 and facts["top_k"] == 2
    assert facts["mean probability of the top-k"] == pytest.approx(0.75, abs=1e-3)

    # Several responses to a prompt are not a fault.
    code, found = inspect(write_store([(7, ([7, 3], [5, 1])), (7, ([7, 3], [6, 1])), (8, ([8, 3], [4, 1]))]))
    assert (code, found["files"][0]["rows"], found["files"][0]["lengths"]["prompt tokens"]["max"]) == (0, 3, 2)


def test_a_tokenizer_decodes_and_counts(tmp_path, word_llama, write_store, inspect, refused):
    folder = tmp_path / "tokenizer"
    word_llama(folder, WORDS, template=TEMPLATE, max_position_embeddings=16)
    code, found = inspect(write_store({7: ROWS[7]}, tokenizer_hash=tokenizer_hash(folder)), "--tokenizer", folder)
    assert code == 0
    assert found["files"][0]["examples"] == [{"id": 7, "prompt": "<user> which names", "response": "names there"}]
    code, found = inspect(write_store({7: ROWS[7]}), "--tokenizer", folder)
    assert code == 1 and "another tokenizer" in found["problems"][0]

    data = write_parquet(tmp_path / "x.parquet", math_row(1, "which names"), math_row(2, "there"))
    samples = write_samples(tmp_path / "0.jsonl", data, {1: [1] * 4, 2: [0] * 4})
    prompts, sampled = inspect(data, samples, "--tokenizer", folder)[1]["files"]
    assert prompts["lengths"]["prompt tokens"] == {"min": 2, "median": 2, "p99": 3, "max": 3}
    assert sampled["lengths"]["prompt tokens"]["max"] == 3  # <user>, question, 1<answer>
    word_llama(folder, WORDS, template="{{ raise_exception('no system role') }}", max_position_embeddings=16)
    code, found = inspect(data, "--tokenizer", folder)
    assert (code, found["files"][0]["problems"]) == (
        1,
        ["The tokenizer's chat template rejects 2 of 2 prompts; the first: row 0: no system role"],
    )
    message = {"role": None, "content": "there"}
    roles = write_parquet(tmp_path / "roles.parquet", math_row(1), math_row(2, prompt=[message]))
    joined = "{% for m in messages %}{{ m['role'] + m['content'] }}{% endfor %}"
    word_llama(folder, WORDS, template=joined, max_position_embeddings=16)
    problems = inspect(roles, "--tokenizer", folder)[1]["files"][0]["problems"]
    assert problems[1].startswith("The tokenizer's chat template rejects 1 of 2 prompts; the first: row 1: unsupported")
    assert "is not a folder" in refused(data, "--tokenizer", tmp_path / "none")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_text("{}")
    assert "holds no tokenizer that can be loaded" in refused(data, "--tokenizer", tmp_path)


def test_faults_in_a_store(write_store, inspect):
    path = write_store(ROWS | {10: ([3, 5], [4])}, top_k=True)
    content = torch.load(path, weights_only=True)
    content["ids"][1] = 7
    content["ref_log_probs"][0], content["ref_log_probs"][2] = math.nan, 0.25
    content["top_log_probs"][6, 0] = 0.5
    torch.save(content, path)
    code, found = inspect(path)
    assert code == 1
    assert found["files"][0]["problems"] == [
        "1 row with the id of an earlier row (id 7).",
        "1 row with the prompt text of another row (for example ids 9 and 10).",
        "2 rows with reference log-probs that no distribution has.",
        "1 row with top-k log-probs that no distribution has.",
    ]
    code, found = inspect(write_store({}))
    assert code == 1 and found["files"][0]["problems"] == ["There is no row."]


def test_files_that_are_not_a_store(tmp_path, write_store, refused):
    class Harmful:
        def __reduce__(self):
            return (tmp_path / "harm").touch, ()

    path = write_store({1: ([1, 2], [3])})
    path.write_bytes(path.read_bytes()[:-50])
    assert "cut short" in refused(path)
    torch.save({"weights": torch.zeros(3)}, path)
    assert "is not a D_pef store of this version" in refused(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "a")
    assert "a zip archive, but not one of torch.save" in refused(path)
    # A pickle is never opened.
    path.write_bytes(pickle.dumps(Harmful()))
    refused(path)
    torch.save(Harmful(), path)
    assert "no pickled objects" in refused(path)
    assert not (tmp_path / "harm").exists()
