"""The program dph: what it lists, what it loads, and what each subcommand starts."""

import json
import os
import signal
import subprocess
import sys

import pytest

from rl import cli
from rl.configuration.arguments import run_of
from tests.programs import REPOSITORY

PROMISED = (
    *("demo", "study", "prepare", "presample", "split", "store", "train"),
    *("evaluate", "export", "report", "compare", "inspect", "audit", "scorer", "doctor"),
)
HEAVY = {"asyncio", "fastapi", "hydra", "matplotlib", "numpy", "omegaconf", "pandas", "pyarrow", "pydantic", "ray"}
HEAVY |= {"scipy", "sqlglot", "torch", "transformers", "verl"}
LOADED = f"""
import contextlib, io, json, sys
from rl.cli import COMMANDS, main

loaded = {{}}
for words in ([], *(name.split() for name in COMMANDS)):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    loaded[" ".join(words)] = sorted({HEAVY} & set(sys.modules))
print(json.dumps(loaded))
"""


def run(capsys, *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `dph WORDS`."""
    try:
        code = cli.main(list(words))
    except SystemExit as end:
        code = end.code
    return code, *capsys.readouterr()


def test_help_loads_nothing_heavy():
    """Which is why it answers at once; no subcommand's help either."""
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, cwd=REPOSITORY)
    assert not done.returncode, done.stderr
    loaded = json.loads(done.stdout)
    # Each line is what has been loaded so far; methods are read with OmegaConf.
    assert len(loaded) == len(cli.COMMANDS) + 1
    assert all({*found} <= {"omegaconf"} for found in loaded.values()), loaded


@pytest.mark.parametrize(("unbuffered", "code"), [("", 0), ("1", 128 + signal.SIGPIPE)])
def test_a_reader_that_ends_early_is_no_traceback(unbuffered, code):
    reader, writer = os.pipe()
    os.close(reader)
    command, environment = [sys.executable, "-m", "rl.cli", "train", "--list"], {"PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, cwd=REPOSITORY, env=os.environ | environment)
    os.close(writer)
    assert (done.returncode, done.stderr) == (code, b"")


def test_the_overview_names_every_command(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0 and run(capsys)[1] == out
    assert [line.split()[0] for line in out.splitlines() if line.startswith("  ") and line[2].isalpha()] == [*PROMISED]
    assert {name.partition(" ")[0] for name in cli.COMMANDS} == {*PROMISED}
    assert cli.main(["--version"]) == 0 and capsys.readouterr().out.startswith("dph-rl ")


@pytest.mark.parametrize(
    ("words", "launched"),
    [
        ("train alpha run 0.01 0.5 7 ~a", "alpha run 0.01 0.5 7 ~a"),
        ("train js_kl run -0.1 --dry-run=config -h", "js_kl run -0.1 --dry-run=config -h"),
        ("presample s experiment=llama_math", "offline_sampling s experiment=llama_math"),
        ("store experiment=omnisql_sql", "get_correct_data_tensor experiment=omnisql_sql"),
    ],
)
def test_the_launcher_is_started(monkeypatch, words, launched):
    """With the method, the other arguments in their order, and this Python; its sentences name dph."""
    monkeypatch.delenv("PYTHON", raising=False)
    started = []
    monkeypatch.setattr(os, "execvpe", lambda file, command, environment: started.append((command, environment)))
    cli.main(words.split())
    [(command, environment)] = started
    assert command == ["bash", str(REPOSITORY / "scripts" / "lib" / "run.sh"), *launched.split()]
    assert environment == os.environ | {"PYTHON": sys.executable}
    method, *arguments = launched.split()
    run = run_of(method, arguments)
    assert run.usage.startswith(f"usage: dph {f'train {method}' if words.startswith('train') else words.split()[0]} ")


def test_without_verl_a_sentence_says_how_to_activate_the_environment():
    code = "import sys; from rl.cli import main; sys.exit(main(['evaluate', 'a=1']))"
    # -S: without the environment's packages; the checkout's own verl/ is there.
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, cwd=REPOSITORY)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "has no verl: activate the environment" in done.stderr


def test_evaluate_is_handed_over(monkeypatch):
    started = []
    monkeypatch.setattr(cli, "verl_folder", lambda: None)
    monkeypatch.setattr(os, "execv", lambda file, command: started.append(command))
    cli.main(["evaluate", "evaluate.n=4", "--cfg", "job"])
    assert started == [[sys.executable, "-m", "verl.dph.evaluate", "evaluate.n=4", "--cfg", "job"]]
