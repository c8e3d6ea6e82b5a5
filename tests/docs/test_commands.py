"""Every command of the README, CONTRIBUTING.md and docs/: its program exists and takes its arguments.

A launch script does a dry run, a program parses its command line and stops there, Hydra composes its configuration, and
make prints what it would do. What the programs do then has tests of its own.
"""

import argparse
import os
import re
import runpy
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from rl import cli
from rl.configuration.compose import CONFIG_OF, compose
from rl.configuration.methods import PREPARATIONS
from rl.launch import __main__ as launch
from tests.docs.conftest import site_module
from tests.programs import REPOSITORY
from tests.scripts.conftest import composed_faster

PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
CHECKED = ("bash", "python", "make", "dph")
# Programs of others, and the shell's own words.
OTHERS = {"pip", "uv", "docker", "sbatch", "srun", "kubectl", "ray", ".venv-lint/bin/pre-commit"}
OTHERS |= {"export", "[", "#", ".", "mkdir", "curl"}

REFERENCE = site_module("reference")
VARIABLE = re.compile(r"^[A-Z_]+=")


@dataclass(frozen=True)
class Command:
    """One command of a page, without comments and the optional parts of a synopsis."""

    page: str
    text: str

    @property
    def variables(self) -> dict[str, str]:
        words = shlex.split(self.text)
        count = next(i for i, word in enumerate(words) if not VARIABLE.match(word))
        return dict(word.split("=", 1) for word in words[:count])

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)[len(self.variables) :]


def commands(page: Path) -> list[Command]:
    """The commands in fenced and indented blocks, and inline code that starts with a program of ours."""
    text = page.read_text().replace("\\\n", " ")
    tables = "\n".join(map(REFERENCE.paper_table, "124")) if page.name == "reproduce.md" else ""
    text += f"\n{tables}\n"
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    bash, others = ([block for kind, block in blocks if kind == wanted] for wanted in ("bash", ""))
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^    (\S.*)$", outside, re.MULTILINE)
    inline = re.findall(
        r"`((?:[A-Z_]+=\S+ )*(?:bash scripts/|python |make |dph (?:train|split|prepare|store|presample) )[^`]+)`",
        outside,
    )
    found = [line for block in bash for line in block.splitlines()]
    loose = [line for block in others for line in block.splitlines()] + indented + inline
    found += [line for line in loose if _head(line) in CHECKED]
    return [Command(page.name, line) for line in map(_bare, found) if line]


def _bare(line: str) -> str:
    line = re.sub(r"(^|\s)#.*$", "", line)  # a comment
    line = re.sub(r"\s\[[^\]]*\]", "", line)  # optional in a synopsis
    return line.strip().removesuffix("&").strip()


def _head(line: str) -> str:
    """The program's word, "" for none."""
    words = [word for word in _bare(line).split() if not VARIABLE.match(word)]
    return words[0] if words else ""


ALL = [command for page in PAGES for command in commands(page) if "..." not in command.text]


def _of(head: str) -> list:
    chosen = {command.text: command for command in ALL if _head(command.text) == head}
    return [pytest.param(command, id=f"{command.page}: {command.text[:70]}") for command in chosen.values()]


def test_there_is_no_other_program():
    heads = {_head(command.text) for command in ALL}
    assert not heads - OTHERS - {*CHECKED}
    assert all(len(_of(head)) > 3 for head in ("bash", "python", "dph")) and _of("make")


@pytest.mark.parametrize("command", _of("bash"))
def test_a_launch_script_does_a_dry_run(command):
    script, *arguments = command.words[1:]
    assert (REPOSITORY / script).is_file()
    _dry_run([str(REPOSITORY / script), *arguments], command.variables)


def _dry_run(words: list[str], variables: dict[str, str]) -> None:
    """Let the launcher print its command, which checks what the page gives it."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME")}
    # tests/road writes and uses this file.
    words = [word.replace("mine/experiment/mine.yaml", "llama_sql") for word in words]
    words = words if "--help" in words else [*words, "--dry-run"]
    with (
        mock.patch.dict(os.environ, kept | variables, clear=True),
        mock.patch("rl.configuration.compose.compose", composed_faster),
    ):
        launch.main(words)


@pytest.mark.parametrize("command", _of("dph"))
def test_dph_takes_its_arguments(command, capsys):
    words = command.words[1:]
    words = words[: words.index(">")] if ">" in words else words
    if words[0].startswith("-") or "--list" in words:
        assert cli.main(words) == 0
        return
    name, arguments = cli.resolve(words)
    try:
        if name in ("presample", "store", "train"):
            method = [] if name == "train" else [PREPARATIONS[name]]
            _dry_run([*method, *arguments], command.variables)
        elif name == "evaluate":
            compose("evaluate", arguments)
        else:
            cli.parser_of(name).parse_args(arguments)
    except SystemExit as end:
        assert not end.code, capsys.readouterr().err


class Parsed(BaseException):
    """The command line was read."""


PARSE_ARGS = argparse.ArgumentParser.parse_args


def parse_only(*arguments, **options):
    PARSE_ARGS(*arguments, **options)
    raise Parsed


@pytest.mark.parametrize("command", _of("python"))
def test_a_program_takes_its_arguments(command, monkeypatch, capsys):
    words = command.words[1:]
    if words[0] == "-m" and words[1] in CONFIG_OF:
        if "--help" not in words:
            compose(CONFIG_OF[words[1]], words[2:])
        return
    # tests/reward/test_own_task.py writes and runs the page's own file.
    if words[0] in ("-c", "countdown/make_rows.py") or words[:2] == ["-m", "pytest"]:
        return
    is_module = words[0] == "-m"
    arguments = words[2:] if is_module else words[1:]
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
    monkeypatch.setattr(sys, "argv", [words[1] if is_module else words[0], *arguments])
    own = [] if is_module else [str((REPOSITORY / words[0]).parent)]  # where Python looks first for a script
    monkeypatch.setattr(sys, "path", [*own, *sys.path])
    ending = Parsed if not {"--help", "-h"} & set(arguments) else SystemExit
    try:
        with pytest.raises(ending) as end:
            if is_module:
                monkeypatch.delitem(sys.modules, words[1], raising=False)
                runpy.run_module(words[1], run_name="__main__", alter_sys=False)
            else:
                runpy.run_path(str(REPOSITORY / words[0]), run_name="__main__")
    except SystemExit as stopped:  # before it parses anything: dph without a command
        assert not stopped.code, capsys.readouterr().err
        return
    assert ending is Parsed or end.value.code in (0, None)


@pytest.mark.parametrize("command", _of("make"))
def test_make_knows_its_targets(command):
    done = subprocess.run(
        ["make", "--dry-run", *command.words[1:]], cwd=REPOSITORY, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
