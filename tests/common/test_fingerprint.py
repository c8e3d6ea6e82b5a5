import hashlib
import os
import shutil

import pytest

from rl.common import fingerprint
from rl.common.errors import UserError
from rl.common.fingerprint import config_hash, file_sha256, model_hash, tokenizer_hash


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model-1.safetensors").write_bytes(b"first")
    (folder / "model-2.safetensors").write_bytes(b"second")
    (folder / "pytorch_model.bin").write_bytes(b"the same weights again")
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text('{"a": 1}')
    return folder


def test_hashes_change_with_what_they_are_of_alone(folder, tmp_path):
    assert file_sha256(folder / "model-1.safetensors") == hashlib.sha256(b"first").hexdigest()
    weights, tokenizer, config = model_hash(folder), tokenizer_hash(folder), config_hash(folder)
    (folder / "config.json").write_text('{"x": 1}')
    (folder / "pytorch_model.bin").write_bytes(b"not read")
    assert config_hash(folder) != config
    config = config_hash(folder)
    (folder / "generation_config.json").write_text('{"eos_token_id": [2, 7]}')
    assert config_hash(folder) != config
    assert model_hash(shutil.copytree(folder, tmp_path / "elsewhere")) == weights
    (folder / "model-1.safetensors").write_bytes(b"second")
    (folder / "model-2.safetensors").write_bytes(b"first")
    assert model_hash(folder) != weights, "shards are swapped"
    assert tokenizer_hash(folder) == tokenizer
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    assert tokenizer_hash(folder) != tokenizer


def test_what_is_missing_is_named(folder, tmp_path):
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UserError, match="holds no tokenizer"):
        tokenizer_hash(folder)
    with pytest.raises(UserError, match="gone.parquet cannot be read"):
        file_sha256(folder / "gone.parquet")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UserError, match="empty holds no weights"):
        model_hash(empty)


def test_weights_that_stay_are_read_once(folder, monkeypatch):
    read = []

    def counting(path):
        read.append(path.name)
        return file_sha256(path)

    monkeypatch.setattr(fingerprint, "file_sha256", counting)
    before = model_hash(folder)
    assert model_hash(folder) == before and sorted(read) == ["model-1.safetensors", "model-2.safetensors"]
    os.utime(folder / "model-1.safetensors", ns=(1, 1))
    assert model_hash(folder) == before and len(read) == 3
