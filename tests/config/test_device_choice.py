"""The device when nothing is said, and what cannot be: in process, and with the programs as a user starts them."""

import importlib.util
import os
import subprocess
import sys

import pytest

from rl.common.errors import UserError
from rl.configuration.compose import compose
from verl.dph.config import device_choice
from verl.dph.sampling.rollout_engine import check_platform

HERE = ["python", "-m", "verl.dph.presample"]


@pytest.fixture
def machine(monkeypatch):
    def machine(gpu: bool, **environment: str) -> None:
        monkeypatch.setattr(device_choice, "is_cuda_available", gpu)
        for name in ("VERL_PLATFORM", "RAY_ADDRESS", "DEVICE"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    return machine


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
def test_the_device_follows_the_command_and_the_machine(machine, capsys, gpu, environment, said, device, platform):
    machine(gpu, **environment)
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


def test_a_gpu_that_is_not_there_is_named(machine):
    machine(False)
    device_choice.check_device("cpu")
    with pytest.raises(UserError, match="device=cuda needs a GPU, and torch finds none here: .* pass device=cpu"):
        device_choice.check_device("cuda")
    machine(True)
    device_choice.check_device("cuda")


def test_vllm_that_is_not_installed_is_named(machine):
    """tests/vllm trains with it."""
    machine(False, VERL_PLATFORM="cpu")
    config = compose("dph_trainer", ["device=cpu", "device=cpu_vllm"])
    assert config.trainer.device == "cpu" and config.actor_rollout_ref.rollout.name == "vllm"
    assert importlib.util.find_spec("vllm") is None
    with pytest.raises(UserError, match="rollout.name=vllm needs vLLM.*make install-vllm"):
        check_platform(config)


@pytest.mark.slow
def test_programs_choose_the_cpu(tmp_path):
    """As a user starts them on a machine without a GPU: what is missing next is named, and no engine's version."""
    environment = {name: value for name, value in os.environ.items() if name != "VERL_PLATFORM"}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    for device, said in (([], "No GPU was found: running on the CPU"), (["device=cuda"], "device=cuda needs a GPU")):
        command = [sys.executable, "-m", "verl.dph.presample", *device]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment)
        assert done.returncode == 2 and done.stderr.splitlines()[-1].startswith("Error: ")
        assert said in done.stderr and "vllm version" not in done.stderr, done.stderr
        assert "does not go with" not in done.stderr
