"""Dockerfiles: hadolint finds nothing; what they copy exists, and the base of docker/Dockerfile has the pinned vLLM."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.conftest import REPOSITORY

DOCKERFILE = REPOSITORY / "docker" / "Dockerfile"
FILES = sorted(DOCKERFILE.parent.iterdir())
# Made by the command in the file's head.
WHEEL = "dist/dph_rl-*.whl"


def test_hadolint():
    program = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([program, "--no-color", *FILES], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_what_it_copies_exists(file):
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", file.read_text(), re.MULTILINE)
    paths = [path for line in copied for path in line.split()]
    if WHEEL in paths:
        paths.remove(WHEEL)
        assert "#   python -m build --wheel\n" in file.read_text()
    else:
        assert {"rl", "verl"} <= {*paths}
    assert paths and all((REPOSITORY / path).exists() for path in paths)


def test_its_base_has_the_pinned_vllm():
    [tag] = re.findall(r"^FROM verlai/verl:vllm(\d+)", DOCKERFILE.read_text(), re.MULTILINE)
    [vllm] = re.findall(r"^vllm==0\.(\d+)\.", (REPOSITORY / "requirements.txt").read_text(), re.MULTILINE)
    assert tag == f"0{vllm}"
