"""GPU types by name, and those of this machine."""

import pytest

from rl.checks.gpus import GPU_TYPES, GpuType, gpu_type, type_of
from rl.checks.machine import Gpu
from rl.common.errors import UserError
from tests.checks.conftest import A800, eight


def listed(name: str, memory: int) -> GpuType:
    return type_of(Gpu("0", "GPU-0", name, memory, 0, "580"))


def test_types_by_name():
    assert gpu_type("H100") == GPU_TYPES["h100"] and gpu_type("a100-40gb").memory == 40
    for name in ("v100", "a100-x", "a100-0"):
        with pytest.raises(UserError, match=f"'{name}' is not a known GPU type: give one of a100, "):
            gpu_type(name)


def test_types_as_nvidia_smi_names_them(nvidia_smi, monkeypatch):
    assert listed("NVIDIA A800-SXM4-80GB", 81251) == GPU_TYPES["a800"]
    assert listed("NVIDIA H200", 143771).memory == 141
    assert listed("NVIDIA A100-PCIE-40GB", 40536).memory == 40
    other = listed("NVIDIA GeForce RTX 4090", 24564)
    assert (other.name, other.memory, other.tflops) == ("NVIDIA GeForce RTX 4090", 24, None)
    nvidia_smi(*eight(A800))
    assert gpu_type("") == GPU_TYPES["a800"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpu_type("").assumed and gpu_type("").name == "a800"
