"""Dockerfiles: hadolint finds nothing; what they copy exists, and the base of docker/Dockerfile has the pinned vLLM."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from rl import cli
from tests.programs import REPOSITORY

DOCKERFILE = REPOSITORY / "docker" / "Dockerfile"
FILES = sorted(DOCKERFILE.parent.iterdir())


def test_hadolint():
    program = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([program, "--no-color", *FILES], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_base_has_the_pinned_vllm():
    [tag] = re.findall(r"^FROM verlai/verl:vllm(\d+)", DOCKERFILE.read_text(), re.MULTILINE)
    [vllm] = re.findall(r"^vllm==0\.(\d+)\.", (REPOSITORY / "requirements.txt").read_text(), re.MULTILINE)
    assert tag == f"0{vllm}"


def test_the_build_calls_dph_as_it_is():
    calls = re.findall(r"&& dph (.+)$", DOCKERFILE.read_text(), re.MULTILINE)
    assert calls and not any(cli.main(words.split()) for words in calls)


def test_a_launch_script_runs_on_what_is_left_in_the_image(tmp_path):
    """Built as far as it goes without an image: what is copied to the working folder, and not removed again."""
    text = DOCKERFILE.read_text()
    for paths, target in re.findall(r"^COPY (.+) (\S+)$", text[text.index("WORKDIR") :], re.MULTILINE):
        for path in paths.split():
            copy = shutil.copytree if (REPOSITORY / path).is_dir() else shutil.copy
            copy(REPOSITORY / path, tmp_path / (target if target != "./" else path))
    [removed] = re.findall(r"&& rm -rf (.+) .$", text, re.MULTILINE)
    subprocess.run(f"rm -rf {removed}", shell=True, cwd=tmp_path, check=True)
    command = ["bash", "scripts/llama/js_kl.sh", "my_run", "0.2", "--dry-run"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHON": sys.executable, "DEVICE": "cuda"}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "method=js_kl" in done.stdout, done.stderr
