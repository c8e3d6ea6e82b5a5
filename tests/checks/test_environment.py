"""Checks of the machine and its environment, of what a probe may find, with disks and a Python of our own."""

import shutil
from collections import namedtuple

import pytest

from rl.checks import environment
from rl.checks.machine import Machine
from rl.common.text import GB

GPUS = [{"name": "NVIDIA H100 80GB HBM3", "total": 80 * GB, "free": 79 * GB}] * 8
PACKAGES = {"python": "3.12.1", "verl": "0.9.1", "vllm": "0.24.0", "torch": "2.11.0", "cuda": "13.0", "gpus": GPUS}
Usage = namedtuple("Usage", "total used free")


def machine(device: str = "cuda", errors: dict[str, str] | None = None, **packages) -> Machine:
    found = Machine(on_cpu=device == "cpu")
    found.packages = PACKAGES | {"errors": errors or {}} | packages
    return found


def test_versions():
    for check, device, changes, status, words in (
        (environment.python, "cuda", {"python": "3.10.4"}, "fail", "needs 3.11 or newer"),
        (environment.python, "cuda", {"python": "3.11.9"}, "warn", "exist only for 3.12"),
        (environment.python, "cpu", {"python": "3.11.9"}, "ok", "3.11.9"),
        (environment.verl, "cpu", {"verl": "0.10.0"}, "fail", "0.10.0: verl.dph overrides hooks of 0.9.1"),
        (environment.verl, "cpu", {"verl": None}, "fail", "not installed"),
        (environment.vllm, "cuda", {"vllm": None}, "fail", "not installed"),
        (environment.vllm, "cpu", {"vllm": None}, "skipped", "the rollout on a CPU is hf"),
        (environment.vllm, "cuda", {"errors": {"vllm": "undefined symbol"}}, "fail", "undefined symbol"),
        (environment.torch, "cuda", {}, "ok", "2.11.0, CUDA 13.0"),
        (environment.torch, "cuda", {"cuda": None}, "fail", "built without CUDA"),
        (environment.torch, "cpu", {"cuda": None, "errors": {"gpus": "no driver"}}, "ok", "2.11.0"),
        (environment.torch, "cpu", {"errors": {"torch": "libgomp.so.1"}}, "fail", "libgomp.so.1"),
    ):
        finding = check(machine(device, **changes))
        assert finding.status == status and words in finding.found


def test_the_verl_that_is_expected_is_the_one_that_is_pinned():
    with open("requirements-common.txt") as file:
        assert [line.strip() for line in file if line.startswith("verl")] == [f"verl=={environment.VERL}"]


def test_gpus():
    assert environment.gpus(machine()).found == "8 x NVIDIA H100 80GB HBM3, a product in bfloat16 on each"
    assert environment.gpus(machine("cpu")).status == "skipped"
    assert "none is visible, and the run asks for 1" in environment.gpus(machine(gpus=[])).found
    finding = environment.gpus(machine(gpus=[GPUS[0], GPUS[0] | {"free": 40 * GB}]))
    assert finding.status == "warn" and "in use: GPU 1 40 GB" in finding.found
    finding = environment.gpus(machine(errors={"gpus": "The NVIDIA driver on your system is too old"}))
    assert finding.status == "fail" and "driver on your system is too old" in finding.found


def test_a_python_that_is_broken_or_silent(tmp_path, monkeypatch):
    monkeypatch.setattr("rl.checks.machine.PROBE_LIMIT_S", 0.5)
    for commands, said in (
        ('echo "ImportError: libcudart.so.13: no such file" >&2; exit 1', "libcudart.so.13"),
        ("exec sleep 61", "no answer within 0.5 s"),
    ):
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{commands}\n")
        path.chmod(0o755)
        finding = environment.python(Machine(on_cpu=False, python=str(path)))
        assert finding.status == "fail" and said in finding.found
    assert "No such file or directory" in environment.python(Machine(on_cpu=False, python=str(tmp_path / "none"))).found


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
    assert Machine.of(None).on_cpu == (device == "cpu")
