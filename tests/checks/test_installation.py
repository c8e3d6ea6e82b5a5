"""Packages and plugin, and the sum over ranks, in a Python that is this one or one that is broken."""

import psutil
import pytest
import torch

from rl.checks import installation, probe
from rl.checks.machine import Machine
from tests.checks.conftest import eight

GPU_PACKAGES = {"python": "3.12.1", "verl": "0.9.1", "vllm": "0.24.0", "import cupy": None, "Python.h": "/Python.h"}


def with_packages(device: str = "cuda", **changes: str | None) -> Machine:
    machine = Machine(device, "in a test")
    machine.probes["packages"] = GPU_PACKAGES | changes
    return machine


def interpreter(tmp_path, commands: str) -> str:
    """A file in the place of Python that does not run."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{commands}\n")
    path.chmod(0o755)
    return str(path)


def test_what_an_environment_lacks():
    assert installation.python(with_packages(python="3.10.4")).status == "fail"
    assert installation.python(with_packages(python="3.11.9")).status == "warn"
    assert installation.python(with_packages("cpu", python="3.11.9")).status == "ok"
    assert "overrides hooks of 0.9.1" in installation.verl(with_packages(verl="0.10.0")).found
    assert installation.verl(with_packages(verl=None)).found == "not installed"
    assert installation.vllm(with_packages(vllm=None)).status == "fail"
    assert installation.cupy(with_packages()).status == "warn"
    assert installation.cupy(with_packages(**{"import cupy": "/x"})).status == "ok"
    assert "no Python.h" in installation.compiler(with_packages(**{"Python.h": None})).found


def test_attention_is_what_training_chooses():
    for chosen, reasons, status in (
        ("flash_attention_2", [], "ok"),
        ("kernels-community/flash-attn2", ["flash-attn is not installed"], "ok"),
        ("sdpa", ["flash-attn is not installed", "kernels is not installed"], "warn"),
    ):
        machine = with_packages()
        machine.probes["attention"] = {"chosen": chosen, "reasons": reasons}
        finding = installation.attention(machine)
        assert finding.status == status and finding.found.startswith(chosen)
        assert all(reason in finding.found for reason in reasons)


def test_the_verl_that_is_expected_is_the_one_that_is_pinned():
    with open("requirements-common.txt") as file:
        assert [line.strip() for line in file if line.startswith("verl")] == [f"verl=={installation.VERL}"]


def test_a_torch_without_cuda_and_one_that_is_broken(tmp_path):
    machine = with_packages()
    machine.probes["torch"] = {"version": "2.13.0+cpu", "cuda": None, "devices": 0, "error": None, "nccl": None}
    assert installation.torch(machine).found == "2.13.0+cpu is built without CUDA"
    broken = Machine("cuda", "", interpreter(tmp_path, 'echo "ImportError: libcudart.so.13: no such file" >&2; exit 1'))
    for check in (installation.python, installation.torch):
        finding = check(broken)
        assert finding.status == "fail" and "libcudart.so.13" in finding.found
    finding = installation.python(Machine("cuda", "", str(tmp_path / "none")))
    assert "No such file or directory" in finding.found


def test_a_plugin_that_is_switched_off(monkeypatch):
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", "other")
    finding = installation.plugin(with_packages())
    assert finding.found == "VERL_USE_EXTERNAL_PLUGINS=other keeps verl from loading verl.dph"


def test_a_plugin_that_raises(monkeypatch, tmp_path):
    """verl logs it at DEBUG alone."""
    machine = with_packages()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['rl.common.console_log'] = None\n")
    finding = installation.plugin(machine)
    assert (
        finding.status == "fail" and "cannot register itself: ModuleNotFoundError: import of rl.common" in finding.found
    )


def test_ranks_that_fail_or_do_not_answer(nvidia_smi, monkeypatch, tmp_path):
    """One of two ranks would wait for the other forever."""
    others = psutil.Process().children(recursive=True)
    failing = Machine("cpu", "", interpreter(tmp_path, 'echo "RuntimeError: no route" >&2; exit 1'))
    finding = installation.ranks(failing)
    assert finding.status == "fail" and finding.found.endswith("2 processes: RuntimeError: no route")
    assert "GLOO_SOCKET_IFNAME" in finding.advice
    nvidia_smi(*eight())
    commands = '[ "$4 $5" = "8 nccl" ] || exit 0; echo "NCCL WARN no peer" >&2; exit 1'
    on_gpus = Machine("cuda", "", interpreter(tmp_path, commands))
    on_gpus.probes["torch"] = {"nccl": "2.27.5", "error": None}
    finding = installation.ranks(on_gpus)
    assert finding.found == "NCCL 2.27.5 cannot sum over 8 processes: NCCL WARN no peer"
    monkeypatch.setattr("rl.checks.machine.PROBE_LIMIT_S", 0.5)
    silent = Machine("cpu", "", interpreter(tmp_path, "sleep 61 & wait"))
    assert "no answer within 0.5 s" in installation.ranks(silent).found
    assert psutil.Process().children(recursive=True) == others


def test_a_wrong_sum_is_noticed(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda numbers: numbers.add_(1))
    try:
        with pytest.raises(ValueError, match="the sum is 2, not 1"):
            probe._rank(0, 1, "gloo", str(tmp_path / "meeting"))
    finally:
        torch.distributed.destroy_process_group()
