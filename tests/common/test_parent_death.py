"""A process that is to end with its parent."""

import subprocess
import sys


def test_a_process_whose_parent_is_dead_already_ends_too(tmp_path):
    """Between fork and exec a program that starts another may be killed: then no signal comes."""
    program = f"""
import os, time
from pathlib import Path
from rl.common.parent_death import end_with_parent
parent = os.getpid()
if os.fork() == 0:
    while os.getppid() == parent:
        time.sleep(0.01)
    end_with_parent(parent)
    Path({str(tmp_path / "alive")!r}).touch()
"""
    # The pipe ends with the last of the two.
    subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    assert not (tmp_path / "alive").exists()
