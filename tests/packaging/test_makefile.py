"""What `make demo` and `make clean-demo` would run."""

import os
import subprocess

import pytest

from rl.demo.models import MODELS
from tests.programs import REPOSITORY


def make(*arguments: str) -> subprocess.CompletedProcess:
    words = ["make", "--dry-run", *arguments]
    # Without the variables of a make that runs the tests.
    return subprocess.run(
        words, cwd=REPOSITORY, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    ("out", "folder"),
    [
        *(((f"MODEL={name}",), f'"{model.folder}"') for name, model in MODELS.items()),
        (("OUT=/tmp/my demo",), '"/tmp/my demo"'),
        (("OUT=~/my demo", "MODEL=smollm2"), '~/"my demo"'),
    ],
)
def test_clean_demo_removes_what_the_demo_wrote(out, folder):
    """A folder with a space is one word for the shell."""
    assert make("clean-demo", *out).stdout == f"rm -rf {folder}\n"
    assert f" --out {folder} " in make("demo", *out).stdout
