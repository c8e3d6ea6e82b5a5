"""What a run writes beside its checkpoints about code, data and settings; tests/end_to_end has a real run's."""

import importlib.metadata
import json
import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from omegaconf import OmegaConf
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from rl.common.errors import UserError
from rl.common.fingerprint import file_sha256
from rl.common.git_state import git_state
from rl.data.training_run import MANIFEST_FORMAT
from verl.dph.pef.store import Store
from verl.dph.training.run_manifest import Manifest
from verl.dph.training.run_record import RunRecord
from verl.dph.training.trainer import SyncTrainer


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
    written = Manifest(config)
    folder = tmp_path / "runs" / "global_step_4"
    written.write(folder, step=4, resources={"GPU": 8.0})
    assert os.listdir(folder) == ["manifest.json"]
    content = json.loads((folder / "manifest.json").read_text())
    assert (content["format"], content["step"], content["ray_resources"]) == (MANIFEST_FORMAT, 4, {"GPU": 8.0})
    assert content["packages"]["verl"] == importlib.metadata.version("verl")
    assert content["settings"]["trainer"]["tags"] == ["js", store, 3]
    assert content["store"] == meta | {"rows": 0, "response_tokens": 0, "top_k": 0}
    files = {f"{tmp_path}/{name}.parquet": file_sha256(tmp_path / f"{name}.parquet") for name in ("a", "b")}
    assert content["data"]["val_files"] == files and content["data"]["sft_pt"] == {store: file_sha256(store)}
    assert len(content["model"]["model_hash"]) == 64

    (tmp_path / "a.parquet").write_text("changed while the run goes on")
    written.write(folder, step=8, resources={})
    again = json.loads((folder / "manifest.json").read_text())
    assert again["step"] == 8 and again["data"] == content["data"]


def test_training_does_not_wait_for_the_models_hash_and_a_manifest_does(config, tmp_path, monkeypatch):
    """A model of 32B is 65 GB, which used to be read while the first checkpoint waited."""
    hashed, train, steps = threading.Event(), [], []
    monkeypatch.setattr("rl.common.fingerprint.model_hash", lambda path: hashed.wait() and "a" * 64)
    trainer = object.__new__(SyncTrainer)  # only what fit uses
    trainer.config = OmegaConf.create({"actor_rollout_ref": {"actor": {"generate_sft": False}}})
    trainer.manifest, trainer.record, trainer.global_steps = Manifest(config), RunRecord(tmp_path), 0

    def trains(self, agent_loop_manager):
        train.append("_hashes" in vars(trainer.manifest))  # already being computed
        with ThreadPoolExecutor() as pool:
            writing = pool.submit(trainer.manifest.write, tmp_path / "global_step_1", step=1, resources={})
            with pytest.raises(TimeoutError):
                writing.result(timeout=0.3)
            steps.extend(tmp_path.glob("global_step_1/*"))
            hashed.set()
            writing.result(timeout=60)

    monkeypatch.setattr(PPOTrainer, "fit", trains)
    trainer.fit(None)
    assert train == [True] and steps == []
    content = json.loads((tmp_path / "global_step_1" / "manifest.json").read_text())
    assert content["model"]["model_hash"] == "a" * 64 and content["data"]["train_files"]
    assert content["data"]["sft_pt"] == {} and content["store"] is None


def test_without_a_hash_there_is_no_manifest(config, tmp_path):
    (tmp_path / "model.safetensors").unlink()
    manifest = Manifest(config)
    manifest.start()
    for _ in range(2):
        with pytest.raises(UserError, match="holds no weights"):
            manifest.write(tmp_path / "global_step_1", step=1, resources={})
    assert not (tmp_path / "global_step_1").exists()


def git(folder, *words):
    identity = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
    subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True)


def test_the_revision_is_the_checkouts(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "x.py").write_text("1")
    assert git_state(package) is None
    git(tmp_path, "init")
    assert git_state(package) is None  # an installed copy inside a checkout of something else
    git(tmp_path, "add", "package")
    git(tmp_path, "commit", "-m", "x")
    state = git_state(package)
    assert len(state["revision"]) == 40 and not state["changed"]
    (package / "x.py").write_text("2")
    assert git_state(package) == state | {"changed": True}
