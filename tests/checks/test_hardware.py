"""Driver, GPUs, shared memory, file limits and disk, with an nvidia-smi and limits of our own."""

import resource
import shutil
from collections import namedtuple

import pytest

from rl.checks import hardware, installation
from rl.checks.finding import Check, look_at
from rl.checks.machine import Machine
from rl.configuration.arguments import run_of
from tests.checks.conftest import A800, H100, eight

Usage = namedtuple("Usage", "total used free")
GB = 10**9


def machine_with(cuda: str | None = "13.0", error: str | None = None, device: str = "cuda") -> Machine:
    machine = Machine(device, "in a test")
    machine.probes["torch"] = {"version": "2.11.0", "cuda": cuda, "devices": 8, "error": error, "nccl": None}
    return machine


def line(finding) -> tuple[str, str]:
    return finding.status, f"{finding.found}: {finding.advice}"


@pytest.mark.parametrize(
    ("driver", "cuda", "error", "status", "words"),
    [
        ("580.82.07", "13.0", None, "ok", "580.82.07"),
        ("535.104.05", "12.8", None, "ok", "535.104.05"),
        ("535.104.05", "13.0", "x", "fail", "535.104.05 is too old for torch's CUDA 13.0, which needs R580 or newer: "),
        ("535.104.05", "13.0", "x", "fail", ": update it, or install cuda-compat-13-0"),
        ("535.104.05", "13.0", None, "ok", "535.104.05 with cuda-compat, older than R580 of CUDA 13.0"),
        ("470.57.02", "12.8", "x", "fail", "needs R525 or newer"),
        ("535.104.05", None, None, "ok", "535.104.05"),  # torch's own line says that it has no CUDA
    ],
)
def test_the_driver_is_held_against_torch_s_cuda(nvidia_smi, driver, cuda, error, status, words):
    nvidia_smi(*eight(driver=driver))
    found = line(hardware.driver(machine_with(cuda, error)))
    assert found[0] == status and words in found[1]


def test_gpus_are_counted_and_compared(nvidia_smi, monkeypatch):
    nvidia_smi(*eight())
    assert line(hardware.gpus(Machine("cuda", ""))) == ("ok", "8 x NVIDIA H100 80GB HBM3, 80 GiB: ")
    mixed = [*eight()[:7], A800.format(index=7, used=4, driver="580.82.07")]
    nvidia_smi(*mixed)
    status, words = line(hardware.gpus(Machine("cuda", "")))
    assert status == "warn" and "8 x NVIDIA A800-SXM4-80GB, 80 GiB and NVIDIA H100" in words
    for chosen, number in (("0,1,2,3", 4), ("GPU-5abc,GPU-6", 2), ("", 0)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
        machine = machine_with()
        assert machine.ranks == number
        assert hardware.gpus(machine).status == ("ok" if number else "fail")
    assert "CUDA_VISIBLE_DEVICES= leaves no GPU visible" in hardware.driver(machine).found


def test_a_gpu_that_is_in_use_is_named_with_its_process(nvidia_smi):
    busy = H100.format(index=3, used=41_000, driver="580.82.07")
    nvidia_smi(*eight()[:3], busy, processes="GPU-3abc, 4711\nGPU-9abc, 1\n")
    status, words = line(hardware.gpus(Machine("cuda", "")))
    assert status == "warn" and "in use: GPU 3 40.0 GiB by process 4711: end what uses them" in words


def test_no_driver(nvidia_smi):
    nvidia_smi("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", code=9)
    machine = machine_with()
    status, words = line(hardware.driver(machine))
    assert status == "fail" and "couldn't communicate" in words and "DEVICE=cpu" in words
    checks = [Check("", look) for look in (hardware.gpus, installation.ranks)]
    assert {finding.status for _, finding in look_at(checks, machine)} == {"skipped"}
    nvidia_smi("No devices were found")
    assert "lists no GPU: No devices were found" in hardware.driver(machine_with()).found


@pytest.mark.parametrize(
    ("free", "device", "status"),
    [(64 * 2**20, "cuda", "fail"), (3 * GB, "cuda", "warn"), (500 * GB, "cuda", "ok"), (64 * 2**20, "cpu", "warn")],
)
def test_shared_memory(nvidia_smi, monkeypatch, free, device, status):
    """64 MiB are Docker's default; 8 GPUs want 8 GB, and Ray up to 10 beside."""
    nvidia_smi(*eight())
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(free, 0, free))
    finding = hardware.shared_memory(Machine(device, ""))
    assert finding.status == status and (status == "ok" or "--shm-size=" in finding.advice)


def test_main_memory(plain_environment, monkeypatch):
    """On a CPU a run is held against what is free; on GPUs the plan has their memory."""
    monkeypatch.setattr("rl.checks.main_memory.memory", lambda: (25 * GB, 20 * GB))
    assert line(hardware.memory(Machine("cpu", ""))) == ("ok", "20 of 25 GB are free: ")
    assert hardware.memory(Machine("cuda", "")).status == "skipped"

    def of(*words: str) -> tuple[str, str]:
        return line(hardware.memory(Machine.of(run_of("scripts/llama/js_kl.sh", ["run", "device=cpu", *words]))))

    status, words = of()
    assert status == "warn" and words.startswith("20 of 25 GB are free, and the run needs about 2024 ")
    assert "(estimated): end other programs, lower MAX_TOKENS_PER_GPU" in words
    status, words = of("actor_rollout_ref.model.path=no/where")
    assert status == "ok" and "what the run needs is not known: the shape of no/where is not known here" in words
    monkeypatch.setattr("rl.checks.main_memory.memory", lambda: (10**13, 10**13))
    assert of()[0] == "ok"


@pytest.mark.parametrize(
    ("limits", "device", "status"),
    [
        ((1024, 65_536), "cuda", "ok"),  # Ray raises the soft limit
        ((4096, 4096), "cuda", "warn"),
        ((4096, 4096), "cpu", "ok"),
        ((1024, 1024), "cpu", "warn"),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), "cuda", "ok"),
    ],
)
def test_open_files(monkeypatch, limits, device, status):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits)
    assert hardware.open_files(Machine(device, "")).status == status


def test_ray_s_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "none"))
    assert "cannot be used (No such file" in hardware.disk(Machine("cpu", "")).found
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    for free, status in ((4, "fail"), (8, "warn"), (50, "ok")):
        monkeypatch.setattr(shutil, "disk_usage", lambda folder, free=free: Usage(100 * GB, 0, free * GB))
        finding = hardware.disk(Machine("cpu", ""))
        assert finding.status == status and str(tmp_path) in finding.found


@pytest.mark.parametrize(
    ("given", "devices", "device"),
    [("cpu", (), "cpu"), ("cuda", (), "cuda"), ("", (), "cpu"), ("", ("nvidia0",), "cuda")],
)
def test_the_device_is_chosen_as_a_script_chooses_it(monkeypatch, given, devices, device):
    monkeypatch.setenv("DEVICE", given)
    monkeypatch.setattr("rl.configuration.names.Path.glob", lambda path, pattern: iter(devices))
    monkeypatch.setattr("rl.configuration.names.Path.exists", lambda path: False)
    assert Machine.of(None).device == device
