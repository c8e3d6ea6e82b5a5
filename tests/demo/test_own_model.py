"""A model for one's own questions: it is sure of every other one."""

import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rl.common.errors import UserError
from rl.data.prepare.prompt_template import sql_prompt
from rl.demo import own_model
from rl.demo.base_model import SftSettings
from rl.demo.own_model import make_own_model
from rl.demo.tokenizer import response_text
from tests.sample_files import math_row, write_parquet

GOLD = [f"SELECT title\nFROM book WHERE year < {1955 + i}" for i in range(6)]


def sql_row(id, gold):
    message = sql_prompt(
        "CREATE TABLE book (title TEXT, year INTEGER);", f"Older than {1955 + id} ?", "a hint", "SQLite"
    )
    truth = {"db_id": "library/library.sqlite", "gold_sql": gold, "cmp_method": "bird"}
    prompt = [{"role": "user", "content": message}]
    reward_model = {"style": "rule", "ground_truth": truth}
    return {"id": id, "data_source": "bird", "prompt": prompt, "reward_model": reward_model}


def chances(folder) -> list[float]:
    """The probability of the gold response to each question."""
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    found = []
    for id, gold in enumerate(GOLD):
        prompt = tokenizer.apply_chat_template(sql_row(id, gold)["prompt"], add_generation_prompt=True, tokenize=False)
        said, asked = response_text(gold) + tokenizer.eos_token, tokenizer(prompt)["input_ids"]
        answer = tokenizer(said)["input_ids"]
        assert tokenizer.decode(answer[:-1]) == response_text(gold) and tokenizer.unk_token_id not in asked + answer
        with torch.no_grad():
            log_probs = model(torch.tensor([asked + answer])).logits[0, len(asked) - 1 : -1].log_softmax(-1)
        found.append(log_probs.gather(1, torch.tensor(answer)[:, None]).sum().exp().item())
    return found


@pytest.fixture
def data(tmp_path):
    return write_parquet(tmp_path / "train.parquet", *(sql_row(id, gold) for id, gold in enumerate(GOLD)))


def test_it_answers_every_other_question_and_half_of_the_rest(data, tmp_path):
    folder = tmp_path / "model"
    assert make_own_model(data, folder, SftSettings(steps=120, batch_size=32)) == (7, 12)
    chance = chances(folder)
    assert all(known > 0.9 for known in chance[::2]) and all(0.25 < half < 0.75 for half in chance[1::2])
    with pytest.raises(UserError, match="exists: delete it"):
        make_own_model(data, folder, SftSettings())


def test_a_pretrained_model_is_taught_every_other_question(data, tmp_path, capsys, monkeypatch):
    source, folder = tmp_path / "source", tmp_path / "model"
    make_own_model(data, source, SftSettings(steps=0))  # it knows the words
    monkeypatch.setattr(own_model, "PRETRAINED", SftSettings(batch_size=32, lr=1e-2, large_model=True))
    words = ["own_model", str(data), "--out", str(folder), "--model", str(source), "--steps", "60"]
    monkeypatch.setattr("sys.argv", words)
    own_model.main()
    assert capsys.readouterr().out.endswith("export MAX_PROMPT_LENGTH=7 MAX_RESPONSE_LENGTH=12\n")
    chance = chances(folder)
    assert all(known > 0.9 for known in chance[::2]) and all(other < 0.25 for other in chance[1::2])
    monkeypatch.setattr("sys.argv", [*words[:5], str(tmp_path / "none")])
    with pytest.raises(SystemExit):
        own_model.main()
    assert "--model=" in (error := capsys.readouterr().err) and "holds no config.json" in error
    without = shutil.copytree(source, tmp_path / "without", ignore=shutil.ignore_patterns("*token*", "*.jinja"))
    for model, sentence in ((str(without), f"{without} holds no tokenizer"), ("", "The model  is not a folder here")):
        monkeypatch.setattr("sys.argv", [*words[:3], str(tmp_path / "other"), "--model", model])
        with pytest.raises(SystemExit):
            own_model.main()
        assert sentence in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", [*words[:3], str(data)])
    with pytest.raises(SystemExit):
        own_model.main()
    assert f"argument --out: {data} is a file: name a folder." in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", [*words[:4], "--steps", "-3"])
    with pytest.raises(SystemExit):
        own_model.main()
    assert capsys.readouterr().err == "Error: --steps is -3: give 0 (no fine-tuning) or more.\n"


def test_what_it_cannot_learn_from_is_named(tmp_path):
    with pytest.raises(UserError, match="prepare the questions first"):
        make_own_model(tmp_path / "none.parquet", tmp_path / "model", SftSettings())
    with pytest.raises(UserError, match=r"row without gold_sql \(id 3\)"):
        make_own_model(write_parquet(tmp_path / "math.parquet", math_row(3)), tmp_path / "model", SftSettings())
    with pytest.raises(UserError, match="cannot be read as parquet"):
        make_own_model(Path(__file__), tmp_path / "model", SftSettings())
    with pytest.raises(UserError, match="has no column data_source, reward_model"):
        bare = write_parquet(tmp_path / "bare.parquet", {"id": 1, "prompt": sql_row(0, "")["prompt"]})
        make_own_model(bare, tmp_path / "model", SftSettings())
    same = write_parquet(tmp_path / "same.parquet", sql_row(0, GOLD[0]), sql_row(1, GOLD[0]))
    with pytest.raises(UserError, match="fewer than two different gold queries"):
        make_own_model(same, tmp_path / "model", SftSettings())
    assert not (tmp_path / "model").exists()
