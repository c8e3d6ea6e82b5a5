import huggingface_hub
import pytest

from rl.common.errors import UserError
from rl.common.model_files import cached_config, local_folder


def test_a_hub_model_is_read_from_the_cache(tmp_path, monkeypatch):
    snapshot = tmp_path / "models--someone--base" / "snapshots" / "0123abcd"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (tmp_path / "models--someone--base" / "refs").mkdir()
    (tmp_path / "models--someone--base" / "refs" / "main").write_text("0123abcd")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert local_folder("someone/base") == snapshot and cached_config("someone/base") == snapshot / "config.json"
    assert cached_config("someone/other") is cached_config("/not/a/name") is None
    with pytest.raises(UserError, match="someone/other is not a folder, and the Hugging Face Hub did not provide it"):
        local_folder("someone/other")
