"""What our wheel holds, and that it starts where nothing is installed but what it asks for."""

import json
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import UV
from tests.programs import REPOSITORY, serving

PAGE = REPOSITORY / "docs" / "howto" / "scorer.md"


@pytest.fixture(scope="module")
def files(wheel) -> dict[str, str]:
    """The wheel's text files by their name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


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


def test_its_entry_points(files):
    [entry_points] = [text for path, text in files.items() if path.endswith(".dist-info/entry_points.txt")]
    for line in (
        "dph = rl.cli:main",
        "[verl.plugins]\ndph = verl.dph.plugin:register",
        "[vllm.general_plugins]\ndph = verl.dph.cpu.vllm_plugin:register",
    ):
        assert line in entry_points


def test_the_scorer_serves_from_its_extra_alone(wheel, tmp_path):
    """The commands of docs/howto/scorer.md, with the server on a free port."""
    venv = installed(f"dph-rl[scorer] @ {wheel.as_uri()}", tmp_path)
    assert not [
        found for name in ("torch", "pyarrow", "verl/__init__.py") for found in venv.glob(f"lib/*/site-packages/{name}")
    ]

    block = re.search(r"^```bash\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]
    install, *prepare, serve, heartbeat, score, metrics = map(shlex.split, block.replace(" &\n", "\n").splitlines())
    assert install == ["pip", "install", f"dist/{wheel.name}[scorer]"]
    for command in prepare:
        subprocess.run(command, cwd=tmp_path, check=True)
    assert serve[:2] == ["dph", "scorer"]
    with serving([venv / "bin" / "dph", *serve[1:]], tmp_path, env={}, cwd=tmp_path) as (_, address):

        def curl(words: list[str]) -> str:
            asked = [word.replace("http://127.0.0.1:5001", address) for word in words]
            return subprocess.run(asked, check=True, capture_output=True, text=True, timeout=60).stdout

        assert json.loads(curl(heartbeat)) == {"status": "healthy"}
        [[answer]] = json.loads(curl(score))["answers"]
        assert (answer["outcome"], answer["score"]) == ("match", 1.0)
        assert 'scorer_answers_total{outcome="match"} 1.0\n' in curl(metrics)


def test_the_client_imports_from_its_extra_alone(wheel, tmp_path):
    venv = installed(f"dph-rl[client] @ {wheel.as_uri()}", tmp_path)
    load = "import rl.scorer.client, rl.scorer.client.verifiers; rl.scorer.client.SQLReward()"
    subprocess.run([venv / "bin" / "python", "-c", load], env={}, cwd=tmp_path, check=True)


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
