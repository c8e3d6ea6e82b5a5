"""The example for SLURM starts what cluster.sh and the launch scripts read."""

import os
import re
import subprocess

from tests.programs import REPOSITORY

SBATCH = REPOSITORY / "scripts" / "cluster" / "slurm.sbatch"
RAY = "launch.ray_arguments='--num-cpus=64'"


def test_sbatch_starts_the_script_on_every_node(tmp_path):
    """srun is replaced by a program that prints its arguments."""
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/sh\nprintf "%s\\n" "$RAY_AUTH_TOKEN" "$PWD" "$@"\n')
    srun.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    job = {"SLURM_SUBMIT_DIR": str(REPOSITORY), "SLURM_CPUS_PER_TASK": "64"}
    words = ["bash", str(SBATCH), "scripts/llama/js_kl.sh", "js", "0.2"]
    started = subprocess.run(words, env=environment | job, capture_output=True, text=True, timeout=60)
    assert started.returncode == 0, started.stderr
    token, folder, *arguments = started.stdout.splitlines()
    assert re.fullmatch("[0-9a-f]{64}", token)
    assert folder == str(REPOSITORY)
    assert arguments == ["--label", "--cpus-per-task=64", *("bash", "scripts/llama/js_kl.sh", "js", "0.2"), RAY]
