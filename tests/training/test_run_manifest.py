"""What a run writes beside its checkpoints about code, data and settings; tests/end_to_end has a real run's."""

import importlib.metadata
import json
import os

import pytest
from omegaconf import OmegaConf

from rl.common.fingerprint import file_sha256
from rl.data.training_run import MANIFEST_FORMAT
from verl.dph.pef.store import Store
from verl.dph.training.run_manifest import manifest_of, write_manifest


@pytest.fixture
def config(tmp_path):
    """Settings of a model and data of a few bytes."""
    for name in ("model.safetensors", "tokenizer.json", "train.parquet", "a.parquet", "b.parquet"):
        (tmp_path / name).write_text(name)
    data = {"train_files": f"{tmp_path}/train.parquet", "val_files": [f"{tmp_path}/a.parquet", f"{tmp_path}/b.parquet"]}
    return OmegaConf.create(
        {
            "actor_rollout_ref": {"model": {"path": str(tmp_path), "tokenizer_path": None}},
            "data": data | {"sft_files": None, "sft_pt": None},
            "trainer": {
                "tags": ["js", "${data.sft_pt}", 3],
            },
        }
    )


def test_a_manifest_names_code_packages_data_and_settings(config, tmp_path, monkeypatch):
    store = config.data.sft_pt = str(tmp_path / "pef.pt")
    meta = {"coverage": "solved", "responses_per_prompt": "all"}
    Store(dict(meta)).save(store)
    of_run = manifest_of(config)
    folder = tmp_path / "runs" / "global_step_4"
    write_manifest(of_run, folder, step=4, resources={"GPU": 8.0})
    assert os.listdir(folder) == ["manifest.json"]
    content = json.loads((folder / "manifest.json").read_text())
    assert (content["format"], content["step"], content["ray_resources"]) == (MANIFEST_FORMAT, 4, {"GPU": 8.0})
    assert content["packages"]["verl"] == importlib.metadata.version("verl")
    assert content["settings"]["trainer"]["tags"] == ["js", store, 3]
    assert content["store"] == meta | {"rows": 0, "response_tokens": 0}
    files = {f"{tmp_path}/{name}.parquet": file_sha256(tmp_path / f"{name}.parquet") for name in ("a", "b")}
    assert content["data"]["val_files"] == files and content["data"]["sft_pt"] == {store: file_sha256(store)}
    assert len(content["model"]["model_hash"]) == 64

    (tmp_path / "a.parquet").write_text("changed while the run goes on")
    write_manifest(of_run, folder, step=8, resources={})
    again = json.loads((folder / "manifest.json").read_text())
    assert again["step"] == 8 and again["data"] == content["data"]
