"""Dockerfiles: hadolint finds nothing; what docker/Dockerfile copies exists, and its base has the pinned vLLM."""

import re
import subprocess
import sys
from pathlib import Path

from tests.packaging.conftest import REPOSITORY

DOCKERFILE = REPOSITORY / "docker" / "Dockerfile"


def test_hadolint():
    program = Path(sys.executable).with_name("hadolint")
    files = sorted(DOCKERFILE.parent.iterdir())
    assert len(files) == 2
    done = subprocess.run([program, "--no-color", *files], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_it_copies_exists():
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE.read_text(), re.MULTILINE)
    paths = [path for line in copied for path in line.split()]
    assert {"rl", "verl", "scripts", "data", "requirements.lock"} <= {*paths}
    assert all((REPOSITORY / path).exists() for path in paths)


def test_its_base_has_the_pinned_vllm():
    [tag] = re.findall(r"^FROM verlai/verl:vllm(\d+)", DOCKERFILE.read_text(), re.MULTILINE)
    [vllm] = re.findall(r"^vllm==0\.(\d+)\.", (REPOSITORY / "requirements.txt").read_text(), re.MULTILINE)
    assert tag == f"0{vllm}"
