"""What `make install-gpu` says of a machine before it downloads anything, and where flash-attn has no wheel."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import REPOSITORY

PROGRAM = REPOSITORY / "packaging" / "gpu" / "check_machine.py"


@pytest.fixture
def machine(monkeypatch):
    """check_machine on a machine that can install: Python 3.12, an R580 driver, gcc and Python.h."""
    spec = importlib.util.spec_from_file_location("check_machine", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PYTHON", sys.version_info[:2])
    monkeypatch.setattr(module, "FREE_GB", 0)
    monkeypatch.setattr(module, "driver_cuda", lambda: (13, 0))
    monkeypatch.setattr(module.shutil, "which", lambda program: f"/usr/bin/{program}")
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    monkeypatch.delenv("ANY_DRIVER", raising=False)
    return module


def test_nothing_is_said_of_a_machine_that_has_everything(machine, monkeypatch, tmp_path, capsys):
    """Nor of an old driver that the user accepts."""
    assert machine.main(str(tmp_path / "venv")) == 0
    monkeypatch.setattr(machine, "driver_cuda", lambda: (12, 4))
    monkeypatch.setenv("ANY_DRIVER", "1")
    assert machine.main(str(tmp_path / "venv")) == 0
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("PYTHON", (3, 99), "requirements.lock is for 3.12: name one with make install-gpu PYTHON=..."),
        ("FREE_GB", 10**6, "GB free and needs 1000000: name another place with VENV_GPU=..."),
        ("glibc_version", lambda: (2, 28), "glibc here is 2.28 and the wheels need 2.31"),
        ("driver_cuda", lambda: (12, 4), "the NVIDIA driver here runs CUDA up to 12.4 and torch 2.11.0 needs 13.0"),
    ],
)
def test_what_prevents_the_installation_ends_it(name, value, sentence, machine, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(machine, name, value)
    assert machine.main(str(tmp_path / "venv")) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("Error: ") and sentence in line


def make(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["make", "install-gpu", *arguments], cwd=REPOSITORY, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("fails", ["flash_attn-", "import flash_attn"])
def test_without_flash_attn_the_installation_is_complete(fails, tmp_path):
    """The recipe's order, with a Python that writes down what it is asked for and installs nothing."""
    log = tmp_path / "log"
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$*" >> {log}\ncase "$*" in *"{fails}"*) exit 1; esac\n')
    python.with_name("dph").write_text("#!/bin/sh\n")
    for program in (python, python.with_name("dph")):
        program.chmod(0o755)
    done = make(f"VENV_GPU={tmp_path}/venv", f"PYTHON={python}")
    assert done.returncode == 0, done.stderr
    asked = log.read_text().splitlines()
    assert [line.split()[-1] for line in asked[2:5]] == ["requirements.lock", ".", "check"]
    assert asked[-1].endswith("uninstall --yes flash-attn")
    assert "Warning: flash-attn could not be installed; training uses sdpa, or, after" in done.stdout
    assert (tmp_path / "venv" / ".installed").is_file()
