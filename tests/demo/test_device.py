"""The demo's device, from its argument to every program that it starts."""

import os
import subprocess

import pytest
import torch

from rl.demo import experiment, run


@pytest.mark.parametrize(
    ("gpu", "device", "sentence"),
    [
        (False, "cuda_hf", "--device cuda_hf (make: DEVICE=cuda_hf) needs a GPU, and torch finds none here"),
        (True, "cuda", "--device cuda (make: DEVICE=cuda) samples with vLLM, which is not installed here"),
        (True, "tpu", "argument --device: invalid choice: 'tpu' (choose from"),
    ],
)
def test_a_device_that_is_not_there_is_one_sentence(gpu, device, sentence, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(experiment, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as stop:
        run.main(["--out", str(tmp_path / "out"), "--device", device])
    assert stop.value.code == 2 and sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("device", ["cpu", "cuda_hf"])
def test_every_program_runs_on_the_device(device, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    stages = {stage.name: stage for stage in run.Demo(tmp_path, ["dph_js"], steps=2, seed=1, device=device).stages()}
    training, evaluation = stages["train_dph_js"], stages["evaluate_base"]
    environment = {name: value for name, value in os.environ.items() if name != "VERL_PLATFORM"}
    for stage in (stages["presample"], stages["store"], training):  # the launch scripts
        command = [*stage.command, "--dry-run"]
        done = subprocess.run(command, env=environment | stage.environment, capture_output=True, text=True, check=True)
        assert f"device={device} " in done.stdout and ("VERL_PLATFORM=cpu" in done.stdout) == (device == "cpu")
    assert f"device={device}" in evaluation.command
    bypasses = [word.endswith("=True") for word in training.command if "bypass_mode" in word]
    assert bypasses[-1] == (device == "cpu")


def test_two_programs_run_at_once_on_a_cpu_and_one_on_a_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    found = {}
    for device in ("cpu", "cuda_hf"):
        demo = run.Demo(tmp_path, ["grpo", "dph_js"], steps=2, seed=1, device=device)
        stages = {stage.name: stage for stage in demo.stages()}
        threads = {name: stage.environment.get("OMP_NUM_THREADS") for name, stage in stages.items()}
        found[device] = demo.at_once, stages["presample"].environment["GPUS_PER_NODE"], threads["train_grpo"]
    assert found == {"cpu": (2, "1", "1"), "cuda_hf": (1, "1", "2")}
    # GRPO trains on all prompts: it waits for neither the samples nor the store.
    assert {name: stage.needs for name, stage in stages.items()} == {
        "task": (),
        "model": ["task"],
        "presample": ["model"],
        "split": ["presample"],
        "store": ["split"],
        "train_grpo": ["model"],
        "train_dph_js": ["store"],
        "evaluate_grpo": ["train_grpo"],
        "evaluate_dph_js": ["train_dph_js"],
        "evaluate_base": ["model"],
    }
