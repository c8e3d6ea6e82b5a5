"""The D_pef store: round trip, what it rejects, and which rows a run can use."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from rl.common.errors import UserError
from rl.common.text import in_bytes
from verl.dph.pef.row_filter import usable
from verl.dph.pef.store import Row, Store

META = {"model": "m", "model_hash": "a" * 64, "tokenizer_hash": "b" * 64, "temperature": 1.0}


def rows(count=3):
    generator = torch.Generator().manual_seed(0)
    return [
        Row(
            f"q{i}" if i % 2 else i,
            torch.randint(0, 50_000, (4 + i,), generator=generator),
            torch.randint(0, 50_000, (2 + 3 * i,), generator=generator),
            -torch.rand(2 + 3 * i, generator=generator),
        )
        for i in range(count)
    ]


FIELDS = ("prompt", "response", "ref_log_probs")


def test_round_trip(tmp_path):
    path = str(tmp_path / "deep" / "store.pt")
    Store(META, rows()).save(path)
    loaded = Store.load(path)
    assert loaded.meta == META | {"rows": 3, "response_tokens": 15} and loaded.num_tokens == 15
    for found, expected in zip(loaded.rows, rows(), strict=True):
        assert found.id == expected.id
        for name in FIELDS:
            stored = getattr(found, name)
            assert torch.equal(stored, getattr(expected, name).to(stored.dtype)), name
        assert {found.prompt.dtype, found.response.dtype} == {torch.int32}
    assert loaded.size(path) == f"15 response tokens, {in_bytes(os.path.getsize(path))}"
    assert os.listdir(tmp_path / "deep") == ["store.pt"]
    assert isinstance(torch.load(path, weights_only=True), dict)


def test_responses_to_one_prompt_share_it(tmp_path):
    """A prompt of several thousand tokens lies in the file once; files of one response per prompt are as before."""
    path, (first, second, third) = str(tmp_path / "store.pt"), rows()
    several = [first, replace(third, id=second.id, prompt=second.prompt.clone()), second]
    Store(META, several).save(path)
    content, loaded = torch.load(path), Store.load(path).rows
    assert content["ids"] == [0, "q1", "q1"] and content["prompt_lengths"].tolist() == [4, 5]
    assert loaded[1].prompt is loaded[2].prompt and several[1].prompt is several[2].prompt
    for found, expected in zip(loaded, [first, third, second], strict=True):
        assert torch.equal(found.response, expected.response)
    assert torch.equal(loaded[1].prompt, second.prompt)
    assert Store.load(path).fingerprint() == Store(META, several).fingerprint()
    with pytest.raises(ValueError, match="row q1: two prompts with one id"):
        Store(META, [second, replace(third, id=second.id)]).save(path)


def test_a_file_with_next_token_distributions_loads_without_them(tmp_path):
    """Earlier versions stored the likeliest next tokens too, with data.sft_top_k."""
    path = str(tmp_path / "store.pt")
    Store(META, rows()).save(path)
    content = torch.load(path)
    content["meta"]["top_k"] = 8
    content |= {"top_ids": torch.zeros(15, 8).int(), "top_log_probs": torch.zeros(15, 8).half()}
    torch.save(content | {"rest_log_probs": torch.zeros(15).half()}, path)
    assert Store.load(path).fingerprint() == Store(META, rows()).fingerprint()


def test_an_incomplete_row_is_not_written(tmp_path):
    broken = rows()
    broken[2].ref_log_probs = broken[2].ref_log_probs[:-1]
    with pytest.raises(ValueError, match="row 2: 8 response tokens, 7 log-probs"):
        Store(META, broken).save(str(tmp_path / "store.pt"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda c: c.update(prompts=None), "'NoneType' object has no attribute 'split'"),
        (lambda c: c["response_lengths"].add_(1), "split_with_sizes expects split_sizes to sum exactly to 15"),
        (lambda c: c["ids"].pop(), "zip"),
        (lambda c: c.pop("ref_log_probs"), "'ref_log_probs'"),
        (lambda c: c.update(ref_log_probs=c["ref_log_probs"][:-1]), "split_with_sizes expects split_sizes to sum"),
    ],
)
def test_parts_that_do_not_fit_together_are_named(tmp_path, change, sentence):
    path = str(tmp_path / "store.pt")
    Store(META, rows()).save(path)
    content = torch.load(path)
    change(content)
    torch.save(content, path)
    with pytest.raises(UserError, match=f"store.pt does not fit together .{sentence}.*dph store"):
        Store.load(path)


def cut_short(path):
    Store(META, rows()).save(path)
    Path(path).write_bytes(Path(path).read_bytes()[:-200])


@pytest.mark.parametrize(
    "write",
    [
        cut_short,
        lambda path: torch.save({"format": "dph-store/1", "meta": Path()}, path),
        lambda path: torch.save([torch.zeros(1)], path),
        lambda path: torch.save({"format": "dph-store/9"}, path),
        lambda path: None,
    ],
    ids=["cut short", "pickled object", "no dict", "other version", "missing"],
)
def test_a_file_that_is_not_a_store_is_rejected_in_a_sentence(tmp_path, write):
    path = str(tmp_path / "store.pt")
    write(path)
    with pytest.raises(UserError, match="store.pt.*dph store"):
        Store.load(path)


END = 1  # <eos> of random_model


def responses(*endings):
    """Rows with 4 prompt tokens and responses of 3 tokens that end in these."""
    return [Row(i, torch.full((4,), 5), torch.tensor([6, 7, end]), -torch.ones(3)) for i, end in enumerate(endings)]


@pytest.fixture
def run_config(random_model):
    def make(**data):
        model = {"path": random_model, "tokenizer_path": None, "trust_remote_code": False}
        limits = {"sft_pt": "pef.pt", "sft_batch_size": 2, "max_prompt_length": 4, "max_response_length": 3}
        return OmegaConf.create({"data": limits | data, "actor_rollout_ref": {"model": model}})

    return make


def test_rows_that_are_cut_or_too_long_are_left_out_and_counted(run_config):
    stored = responses(END, END, 9, END, END)
    stored[1].prompt = torch.full((5,), 5)
    stored[4].response, stored[4].ref_log_probs = torch.tensor([6, 7, 8, END]), -torch.ones(4)
    found, words = usable(Store(META, stored), run_config())
    assert [row.id for row in found.rows] == [0, 3] and found.meta == META
    assert words == (
        "2 of 5 rows (left out: 1 with a prompt over data.max_prompt_length=4, 1 with a response that was cut off, "
        "1 with a response over data.max_response_length=3)"
    )
    assert usable(Store(META, responses(END, END)), run_config())[1] == "2 rows"


def test_an_end_token_of_the_generation_config_ends_a_response_too(run_config, random_model, tmp_path):
    folder = shutil.copytree(random_model, tmp_path / "model")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [END, 9]}))
    config = run_config()
    config.actor_rollout_ref.model.path = str(folder)
    assert len(usable(Store(META, responses(END, 9, 10)), config)[0]) == 2
