"""shellcheck finds nothing in the launch scripts, with the settings of scripts/.shellcheckrc."""

import subprocess
import sys
from pathlib import Path

from tests.scripts.conftest import SCRIPTS


def test_shellcheck():
    program = Path(sys.executable).with_name("shellcheck")
    shared = sorted((SCRIPTS / "lib").rglob("*.sh"))
    own = sorted({*SCRIPTS.rglob("*.sh"), *SCRIPTS.rglob("*.sbatch")} - set(shared))
    # What the few lines of the scripts themselves source is followed once, not with each of them again.
    for arguments in (shared, ["--norc", "--exclude=SC1090,SC1091,SC2034", *own]):
        found = subprocess.run([program, *arguments], cwd=SCRIPTS, capture_output=True, text=True, timeout=120)
        assert found.returncode == 0, found.stdout + found.stderr
