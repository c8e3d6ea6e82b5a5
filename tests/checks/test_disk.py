"""Disks without room for a checkpoint: before the run starts, and while one is written."""

import pytest
import torch
from omegaconf import OmegaConf

from rl.checks import disk
from rl.checks.disk import check_room, full_disk_explained
from rl.common.atomic_write import write_text
from rl.common.errors import UserError
from rl.common.fingerprint import model_hash
from rl.common.model_files import parameters_in_files


def test_a_disk_that_is_full_while_a_checkpoint_is_written(tmp_path, full_disk):
    """One sentence; what was written of it goes, and the last whole checkpoint stays."""
    folder, last = tmp_path / "global_step_10", tmp_path / "global_step_5"
    for made in (folder, last):
        made.mkdir()
    (last / "model.pt").touch()
    with full_disk(600_000), pytest.raises(UserError) as error, full_disk_explained(folder, last):
        torch.save({"a": torch.zeros(1_000_000)}, folder / "model.pt")
    assert f"The checkpoint {folder} cannot be written, its disk is full (" in str(error.value)
    assert str(error.value).endswith("to a larger disk; the same command then resumes from global_step_5.")
    folder.mkdir()
    of_last = pytest.raises(UserError, match="then resumes from global_step_5")
    with full_disk(10), of_last, full_disk_explained(folder, last):
        write_text(folder / "manifest.json", "more than ten bytes")
    assert (last / "model.pt").exists() and not folder.exists()


def test_a_run_that_does_not_fit_on_the_disk_does_not_start(run, monkeypatch):
    """20,640 parameters, the tied ones once, x 12 bytes, or 16 with a Hugging Face folder."""
    free = 200_000
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage_with(free))
    sentence = run.rejection({"trainer.save_freq": 5})
    assert sentence.startswith("The checkpoints do not fit: a checkpoint takes about 0.248 MB, 0.2 MB are free in ")
    assert "set trainer.max_actor_ckpt_to_keep to keep fewer, or OUTPUT_DIR to a larger disk" in sentence
    run.prepare({"trainer.save_freq": -1})
    free = 300_000
    run.prepare({"trainer.save_freq": 5})
    contents = {"actor_rollout_ref.actor.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"]}
    assert "a checkpoint takes about 0.33 MB" in run.rejection({"trainer.save_freq": 5} | contents)
    critic = {"algorithm.adv_estimator": "gae", "critic.model.path": "${actor_rollout_ref.model.path}"}
    assert "a checkpoint takes about 0.495 MB" in run.rejection({"trainer.save_freq": 5} | critic)
    for kept, needed in ((1, 2), (2, 2), (3, 3)):
        with pytest.raises(UserError, match=f"and {needed} are there at a time"):
            run.prepare({"trainer.save_freq": 5, "trainer.max_actor_ckpt_to_keep": kept})


@pytest.mark.parametrize(("there", "needed"), [(0, 3), (1, 3), (2, 2), (3, 1)])
def test_a_resumed_run_needs_room_for_the_checkpoints_that_are_not_there_yet(tmp_path, monkeypatch, there, needed):
    """Of those before the resume, verl deletes none ahead of a new one: at most one more than is kept is there."""
    for step in range(there):
        (tmp_path / f"global_step_{step}" / "actor").mkdir(parents=True)
    trainer = {"save_freq": 5, "default_local_dir": str(tmp_path), "max_actor_ckpt_to_keep": 3}
    actor = {"model": {"path": ""}, "actor": {"checkpoint": {"save_contents": ["model"]}}}
    config = OmegaConf.create({"trainer": trainer, "actor_rollout_ref": actor, "critic": None})
    monkeypatch.setattr(disk, "parameters_in_files", lambda model: 10**6)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage_with(4_000_000 * needed))
    assert check_room(config, has_critic=False, resumes=True).status == "ok"
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage_with(4_000_000 * needed - 1))
    with pytest.raises(UserError, match="The checkpoints do not fit"):
        check_room(config, has_critic=False, resumes=True)


def test_weights_that_were_not_downloaded_are_no_safetensors_file(tmp_path):
    """A clone without Git LFS: the first eight characters were read as a length, which no memory holds."""
    pointer = tmp_path / "model.safetensors"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n")
    with pytest.raises(UserError, match="model.safetensors is not a safetensors file: download the model again"):
        parameters_in_files(str(tmp_path))
    pointer.unlink()
    pointer.symlink_to(tmp_path / "gone")
    with pytest.raises(UserError, match="model.safetensors cannot be read .No such file or directory.: download"):
        model_hash(tmp_path)


def usage_with(free: int):
    return type("usage", (), {"free": free})
