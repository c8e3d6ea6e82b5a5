"""The D_pef store: round trip, and what it refuses."""

import os

import pytest
import torch

from verl.dph.errors import UserError
from verl.dph.store import Row, Store

META = {"model": "m", "model_hash": "a" * 64, "tokenizer_hash": "b" * 64, "temperature": 1.0}


def rows(count=3):
    generator = torch.Generator().manual_seed(0)
    return [
        Row(
            id=f"q{i}" if i % 2 else i,
            prompt=torch.randint(0, 50_000, (4 + i,), generator=generator),
            response=torch.randint(0, 50_000, (2 + 3 * i,), generator=generator),
            ref_log_probs=-torch.rand(2 + 3 * i, generator=generator),
        )
        for i in range(count)
    ]


def test_round_trip(tmp_path):
    path = str(tmp_path / "deep" / "store.pt")
    Store(META, rows()).save(path)
    loaded = Store.load(path)
    assert loaded.meta == META | {"rows": 3, "response_tokens": 15} and loaded.num_tokens == 15
    for found, expected in zip(loaded.rows, rows(), strict=True):
        assert found.id == expected.id
        assert torch.equal(found.prompt, expected.prompt) and found.prompt.dtype == torch.int64
        assert torch.equal(found.response, expected.response)
        assert torch.equal(found.ref_log_probs, expected.ref_log_probs)
    assert os.listdir(tmp_path / "deep") == ["store.pt"]
    assert isinstance(torch.load(path, weights_only=True), dict)


def test_an_empty_store_round_trips(tmp_path):
    path = str(tmp_path / "store.pt")
    Store(META, []).save(path)
    assert len(Store.load(path)) == 0


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = str(tmp_path / "store.pt")
    Store(META, rows(1)).save(path)
    monkeypatch.setattr(torch, "save", lambda content, file: (open(file, "w").write("half"), 1 / 0))
    with pytest.raises(ZeroDivisionError):
        Store(META, rows(2)).save(path)
    assert len(Store.load(path)) == 1 and os.listdir(tmp_path) == ["store.pt"]


def test_a_row_without_all_its_log_probs_is_not_written(tmp_path):
    broken = rows(1)
    broken[0].ref_log_probs = broken[0].ref_log_probs[:-1]
    with pytest.raises(ValueError, match="row 0: 2 response tokens, 1 log-probs"):
        Store(META, broken).save(str(tmp_path / "store.pt"))


class Pickled:
    """Anything that is no plain tensor."""


@pytest.mark.parametrize(
    "write",
    [
        lambda path: open(path, "wb").write(b"not a store"),
        lambda path: torch.save({"format": "dph-store/1", "meta": Pickled()}, path),
        lambda path: torch.save([torch.zeros(1)], path),
        lambda path: torch.save({"format": "dph-store/9"}, path),
    ],
    ids=["garbage", "pickled object", "no dict", "other version"],
)
def test_what_is_no_store_is_refused_in_a_sentence(tmp_path, write):
    path = str(tmp_path / "store.pt")
    write(path)
    with pytest.raises(UserError, match="store.pt.*get_correct_data_tensor.sh"):
        Store.load(path)


def test_a_missing_store_is_named(tmp_path):
    with pytest.raises(UserError, match="nowhere.pt does not exist"):
        Store.load(str(tmp_path / "nowhere.pt"))


@pytest.mark.parametrize(
    ("name", "value"), [("model_hash", "c" * 64), ("tokenizer_hash", "c" * 64), ("temperature", 0.6)]
)
def test_a_store_of_another_origin_is_refused(name, value):
    store = Store(META, rows())
    same = {key: META[key] for key in ("model_hash", "tokenizer_hash", "temperature")}
    store.check_origin("store.pt", **same)
    with pytest.raises(UserError, match=f"another {name.removesuffix('_hash')}"):
        store.check_origin("store.pt", **(same | {name: value}))
