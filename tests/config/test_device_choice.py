"""The device when nothing is said; tests/road starts the programs as a user does."""

import os

import pytest

from verl.dph.config import device_choice

HERE = ["python", "-m", "verl.dph.presample"]


@pytest.mark.parametrize(
    "gpu, environment, said, device, platform",
    [
        (True, {}, [], "cuda", None),
        (False, {}, [], "cpu", "cpu"),
        (True, {}, ["device=cpu_vllm"], "cpu_vllm", "cpu"),
        (False, {}, ["device=cuda"], "cuda", None),
        (True, {"VERL_PLATFORM": "cpu"}, [], "cpu", "cpu"),
        (True, {"DEVICE": "cpu"}, [], "cpu", "cpu"),
        (True, {"DEVICE": "cpu"}, ["device=cuda"], "cuda", None),
        (False, {"RAY_ADDRESS": "head:6379"}, [], "cuda", None),
    ],
)
def test_the_device_follows_the_command_and_the_machine(monkeypatch, capsys, gpu, environment, said, device, platform):
    monkeypatch.setattr(device_choice, "is_cuda_available", gpu)
    for name in ("VERL_PLATFORM", "RAY_ADDRESS", "DEVICE"):
        monkeypatch.setenv(name, "")  # so that what set_platform sets does not outlive the test
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert device_choice.add_device(said) == [f"device={device}"]
    chosen = not (gpu or said or environment)
    assert capsys.readouterr().err == "No GPU was found: running on the CPU (device=cpu).\n" * chosen
    device_choice.set_platform(["python", "other.py"])  # as in Ray's processes
    assert os.environ.get("VERL_PLATFORM") == environment.get("VERL_PLATFORM")
    device_choice.set_platform(HERE + said)
    assert os.environ.get("VERL_PLATFORM") == platform


def test_overrides_stand_together():
    add = device_choice.with_overrides
    assert add(["--cfg", "job"], ["device=cpu"]) == ["device=cpu", "--cfg", "job"]
    assert add(["a=1", "--cfg", "job"], ["device=cpu"]) == ["device=cpu", "a=1", "--cfg", "job"]
    assert add(["--cfg", "job", "--resolve", "a=1"], ["b=2"]) == ["--cfg", "job", "--resolve", "b=2", "a=1"]
