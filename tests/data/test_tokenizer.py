"""The option --tokenizer takes what MODEL_PATH does: a folder, or a name on the Hugging Face Hub."""

from pathlib import Path

import huggingface_hub
import pytest

from rl.common.errors import UserError
from rl.data.tokenizer import load_tokenizer
from rl.demo.tokenizer import build_tokenizer


def test_a_name_on_the_hub(tmp_path, monkeypatch):
    tokenizer = build_tokenizer({"which", "book"})
    model = tmp_path / "models--someone--base"
    tokenizer.save_pretrained(model / "snapshots" / "0123abcd")
    (model / "snapshots" / "0123abcd" / "config.json").write_text('{"model_type": "llama"}')
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("0123abcd")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert load_tokenizer(Path("someone/base")).get_vocab() == tokenizer.get_vocab()
    with pytest.raises(UserError, match="someone/other is not a folder here, and .* reached .* folder in --tokenizer."):
        load_tokenizer(Path("someone/other"))
