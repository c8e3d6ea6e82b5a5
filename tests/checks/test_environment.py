"""Checks of the machine and its environment, with an nvidia-smi, disks and a Python of our own."""

import shutil
from collections import namedtuple

import psutil
import pytest

from rl.checks import environment
from rl.checks.machine import Machine
from rl.common.text import GB
from tests.checks.conftest import h100

PACKAGES = {"python": "3.12.1", "verl": "0.9.1", "vllm": "0.24.0"}
Usage = namedtuple("Usage", "total used free")


def machine(device: str = "cuda", torch: dict | None = None, **packages: str | None) -> Machine:
    found = Machine(device, "in a test")
    found.probes["packages"] = PACKAGES | packages
    found.probes["torch"] = {"version": "2.11.0", "cuda": "13.0", "devices": 8, "error": None} | (torch or {})
    return found


def interpreter(tmp_path, commands: str) -> str:
    """A file in the place of Python that does not run."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{commands}\n")
    path.chmod(0o755)
    return str(path)


def test_versions():
    assert environment.python(machine(python="3.10.4")).status == "fail"
    assert environment.python(machine(python="3.11.9")).status == "warn"
    assert environment.python(machine("cpu", python="3.11.9")).status == "ok"
    assert "overrides hooks of 0.9.1" in environment.verl(machine(verl="0.10.0")).found
    assert environment.verl(machine(verl=None)).found == "not installed"
    assert environment.vllm(machine(vllm=None)).status == "fail"
    assert environment.torch(machine()).status == "ok"
    assert environment.torch(machine(torch={"cuda": None})).found == "2.11.0 is built without CUDA"
    old = "The NVIDIA driver on your system is too old"
    assert environment.torch(machine(torch={"error": old})).found.endswith(old)


def test_the_verl_that_is_expected_is_the_one_that_is_pinned():
    with open("requirements-common.txt") as file:
        assert [line.strip() for line in file if line.startswith("verl")] == [f"verl=={environment.VERL}"]


def test_gpus(nvidia_smi, monkeypatch):
    nvidia_smi()
    assert environment.gpus(machine()).found == "8 x NVIDIA H100 80GB HBM3"
    for chosen, number in (("0,1,2,3", 4), ("GPU-5abc,GPU-6", 2), ("", 0)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
        assert machine().ranks == number
        assert environment.gpus(machine()).status == ("ok" if number else "fail")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    nvidia_smi(h100(0), h100(1, used=41_000))
    finding = environment.gpus(machine())
    assert finding.status == "warn" and "in use: GPU 1 40.0 GiB" in finding.found
    nvidia_smi("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", code=9)
    finding = environment.gpus(machine())
    assert finding.status == "fail" and "couldn't communicate" in finding.found and "DEVICE=cpu" in finding.advice
    nvidia_smi("No devices were found")
    assert "lists no GPU: No devices were found" in environment.gpus(machine()).found


def test_a_python_that_is_broken_or_silent(tmp_path, monkeypatch):
    others = psutil.Process().children(recursive=True)
    broken = Machine("cuda", "", interpreter(tmp_path, 'echo "ImportError: libcudart.so.13: no such file" >&2; exit 1'))
    for check in (environment.python, environment.torch):
        finding = check(broken)
        assert finding.status == "fail" and "libcudart.so.13" in finding.found
    assert "No such file or directory" in environment.python(Machine("cuda", "", str(tmp_path / "none"))).found
    monkeypatch.setattr("rl.checks.machine.PROBE_LIMIT_S", 0.5)
    silent = Machine("cpu", "", interpreter(tmp_path, "sleep 61 & wait"))
    assert "no answer within 0.5 s" in environment.torch(silent).found
    assert psutil.Process().children(recursive=True) == others


def test_a_plugin_that_is_switched_off_or_raises(monkeypatch, tmp_path):
    """verl logs it at DEBUG alone."""
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", "other")
    finding = environment.plugin(machine())
    assert finding.found == "VERL_USE_EXTERNAL_PLUGINS=other keeps verl from loading verl.dph"
    monkeypatch.delenv("VERL_USE_EXTERNAL_PLUGINS")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['rl.common.console_log'] = None\n")
    finding = environment.plugin(machine())
    assert "cannot register itself: ModuleNotFoundError: import of rl.common" in finding.found


def test_disks(monkeypatch, tmp_path):
    """64 MiB of shared memory are Docker's default."""
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "none"))
    assert "cannot be used (No such file" in environment.ray_folder(machine()).found
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    for free, status in ((4, "fail"), (8, "warn"), (50, "ok")):
        monkeypatch.setattr(shutil, "disk_usage", lambda folder, free=free: Usage(100 * GB, 0, free * GB))
        finding = environment.ray_folder(machine())
        assert finding.status == status and str(tmp_path) in finding.found
    for free, device, status in ((64 * 2**20, "cuda", "fail"), (3 * GB, "cuda", "ok"), (0, "cpu", "skipped")):
        monkeypatch.setattr(shutil, "disk_usage", lambda folder, free=free: Usage(100 * GB, 0, free))
        assert environment.shared_memory(machine(device)).status == status


@pytest.mark.parametrize(
    ("given", "devices", "device"),
    [("cpu", (), "cpu"), ("cuda", (), "cuda"), ("", (), "cpu"), ("", ("nvidia0",), "cuda")],
)
def test_the_device_is_chosen_as_a_script_chooses_it(monkeypatch, given, devices, device):
    monkeypatch.setenv("DEVICE", given)
    monkeypatch.setattr("rl.configuration.names.Path.glob", lambda path, pattern: iter(devices))
    monkeypatch.setattr("rl.configuration.names.Path.exists", lambda path: False)
    assert Machine.of(None).device == device
