"""What our wheel holds, and that it starts where nothing is installed but what it asks for."""

import subprocess
import sys
import time
import zipfile
from email.parser import Parser
from pathlib import Path

import httpx
import pytest

from tests.packaging.conftest import REPOSITORY, UV


@pytest.fixture(scope="module")
def files(wheel) -> dict[str, str]:
    """The wheel's text files by their name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def metadata(files: dict[str, str], name: str) -> str:
    [found] = [text for path, text in files.items() if path.endswith(f".dist-info/{name}")]
    return found


def test_it_holds_every_file_of_ours_and_no_other(files):
    ours = {
        path.relative_to(REPOSITORY).as_posix()
        for folder in ("rl", "verl")
        for path in (REPOSITORY / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in files if ".dist-info/" not in name} == ours
    assert {Path(name).suffix for name in ours} >= {".py", ".yaml", ".html", ".css", ".json"}
    # Upstream's package would lose its own to ours.
    assert "verl/__init__.py" not in ours and "verl/dph/__init__.py" in ours


def test_its_entry_points_and_extras(files):
    entry_points = metadata(files, "entry_points.txt")
    for line in (
        "dph = rl.cli:main",
        "[verl.plugins]\ndph = verl.dph.plugin:register",
        "[vllm.general_plugins]\ndph = verl.dph.cpu.vllm_plugin:register",
    ):
        assert line in entry_points
    declared = Parser().parsestr(metadata(files, "METADATA"))
    assert {*declared.get_all("Provides-Extra")} == {"scorer", "engines", "audit", "report", "train"}
    assert declared["Requires-Python"] == "<3.13,>=3.11"


def test_dph_starts_from_the_wheel_alone(wheel, tmp_path):
    venv = installed(f"dph-rl @ {wheel.as_uri()}", tmp_path)

    def dph(*arguments: str) -> str:
        done = subprocess.run(
            [venv / "bin" / "dph", *arguments], env={}, cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "dph COMMAND --help" in dph("--help")
    assert "verl not installed\n" in dph("version")
    assert "evaluate.models" in dph("evaluate", "--help")  # from the YAML
    assert "usage: dph scorer" in dph("scorer", "--help")


def test_the_scorer_serves_from_its_extra_alone(wheel, tmp_path):
    venv, address = installed(f"dph-rl[scorer] @ {wheel.as_uri()}", tmp_path), tmp_path / "address"
    assert not [
        found for name in ("torch", "pyarrow", "verl/__init__.py") for found in venv.glob(f"lib/*/site-packages/{name}")
    ]

    settings = next(venv.glob("lib/*/site-packages/rl/scorer/math.yaml"))
    command = [venv / "bin" / "dph", "scorer", "-c", settings, "--port", "0", "--address-file", address]
    with subprocess.Popen(command, env={}, cwd=tmp_path) as server:
        try:
            wait_for(address, server)
            question = {"question": {"ground_truth": "1/2"}, "responses": [r"\boxed{0.5}", r"\boxed{2}"]}
            reply = httpx.post(f"http://{address.read_text()}/v1/score", json={"questions": [question]}, timeout=60)
        finally:
            server.terminate()
    assert [[score["outcome"] for score in scores] for scores in reply.json()["answers"]] == [["match", "mismatch"]]


def installed(requirement: str, folder: Path) -> Path:
    """A new environment with the packages of a requirement; a network that is gone skips."""
    venv = folder / "venv"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, venv], check=True)
    install = [UV, "pip", "install", "--quiet", "--python", venv / "bin" / "python"]
    done = subprocess.run([*install, requirement], capture_output=True, text=True)
    if "Failed to fetch" in done.stderr:
        pytest.skip(" ".join(done.stderr.split("\n")[1].split()))
    assert done.returncode == 0, done.stderr
    return venv


def wait_for(file: Path, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 60
    while not file.exists() or not file.read_text():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
