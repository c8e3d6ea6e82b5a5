"""benchmarks/step_scale.py at its small size: the driver's and the ranks' side of a step in a real TransferQueue."""

import re
import subprocess
import sys

import pytest

from tests.programs import REPOSITORY

PROGRAM = REPOSITORY / "benchmarks" / "step_scale.py"
PHASES = ["put rollouts", "look for rollouts", "order and balance", "old log-probs", "advantages", "mix D_pef in"]
PHASES += ["all ranks read", "slowest rank", "take D_pef out"]


@pytest.mark.slow
def test_a_small_step_goes_through_and_every_rank_has_its_share():
    result = subprocess.run([sys.executable, PROGRAM, "--small"], capture_output=True, text=True, timeout=180)
    assert result.returncode == 0, result.stderr[-4000:]
    found = re.findall(r"^(\D+?) +[\d.]+ s   driver +[\d.]+ GB   queue +([\d.]+) GB$", result.stdout, re.MULTILINE)
    assert [name for name, _ in found] == PHASES
    assert all(float(queue) > 0.1 for _, queue in found), "the queue's processes were not found"
    rows = (2048 + 2048 // 8) // (4 * 8)
    assert re.search(rf"^8 ranks, {rows} rows each a mini-batch, at most \d+\.\d% above", result.stdout, re.M)
