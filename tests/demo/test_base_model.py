"""The base model's folder: it learns, loads and is exact for a seed."""

import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from rl.common.errors import UserError
from rl.demo.base_model import IGNORED, SftSettings, Shape, build_model, collate, fine_tune, make_model, tokenized
from rl.demo.tokenizer import build_tokenizer, response_text

SHAPE = Shape(hidden_size=32, intermediate_size=48, num_attention_heads=2, num_hidden_layers=1)
SFT = SftSettings(steps=3, batch_size=4, warmup_steps=1)


def test_a_few_steps_lower_the_loss(small_task):
    tokenizer = build_tokenizer()
    rows = pq.read_table(small_task / "sft.parquet", columns=["prompt", "solutions"]).to_pylist()
    examples = [tokenized(tokenizer, row["prompt"], map(response_text, row["solutions"])) for row in rows]
    assert tokenizer.convert_ids_to_tokens(examples[0].prompt)[-1] == tokenizer.bos_token
    assert len(examples[0].solutions) == 5
    for ids in examples[0].solutions:
        assert ids[-1] == tokenizer.eos_token_id and tokenizer.unk_token_id not in ids
    model = build_model(tokenizer, SHAPE, seed=0)
    losses = fine_tune(model, examples, SftSettings(steps=30, batch_size=16, warmup_steps=5, lr=1e-2), seed=0)
    # A uniform guess over the vocabulary costs ln 359 = 5.88 nats per token.
    assert 5.0 < losses[0] < 7.0 and sum(losses[-3:]) / 3 < 3.0


def test_collate_by_hand():
    input_ids, labels = collate([([1, 5], [6, 2]), ([1], [7, 8, 9, 2])])
    assert input_ids.tolist() == [[1, 5, 6, 2, 0], [1, 7, 8, 9, 2]]
    x = IGNORED
    assert labels.tolist() == [[x, x, 6, 2, x], [x, 7, 8, 9, 2]]


def test_the_folder_loads_and_is_exact_for_a_seed(small_task, tmp_path):
    folder = tmp_path / "base"
    make_model(small_task, folder, SFT, SHAPE)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    assert model.config.vocab_size == len(tokenizer)
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert GenerationConfig.from_pretrained(folder).eos_token_id == tokenizer.eos_token_id
    assert model.generate(torch.tensor([[1, 5, 2, 1]]), max_new_tokens=3, do_sample=False).shape[1] <= 7
    make_model(small_task, tmp_path / "same", SFT, SHAPE)
    make_model(small_task, tmp_path / "seed", SFT, SHAPE, seed=5)
    first, same, seed = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("base", "same", "seed"))
    assert first == same != seed and len([*tmp_path.iterdir()]) == 3


def test_other_folders_are_left_alone(small_task, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="exists: delete it"):
        make_model(small_task, tmp_path, SFT, SHAPE)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
