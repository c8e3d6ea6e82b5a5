"""Our wheel, built once."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import REPOSITORY

UV = Path(sys.executable).with_name("uv")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """Built from the source distribution, as pip builds what it downloads."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, source)
    for name in ("rl", "verl", "tests"):
        shutil.copytree(REPOSITORY / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "outputs"))
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert len(list(out.glob("*.tar.gz"))) == 1
    [built] = out.glob("*.whl")
    return built
