"""Run the launch scripts with a recorder in the place of Python, or their launcher in this process."""

import contextlib
import copy
import functools
import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from rl.configuration import compose, variables
from rl.configuration.settle import settle
from rl.configuration.variables import flat
from rl.launch import __main__ as launch
from tests.programs import REPOSITORY

SCRIPTS = REPOSITORY / "scripts"
# Writes its arguments and the environment as JSON to $RECORD; it has verl (-c asks), and the launcher is real.
RECORDER = """#!/bin/sh
[ "$1" != -c ] || exit 0
[ "$2" != rl.launch ] || exec {python} "$@"
exec {python} -c 'import json, os, sys
print(json.dumps([sys.argv[1:], dict(os.environ)]), file=open(os.environ["RECORD"], "a"))
sys.exit(int(os.environ.get("RECORDER_EXITS", 0)))' "$@"
"""
GROUPS = ("experiment=", "method=", "device=")
hydras_compose = compose.compose  # which the tests replace


@functools.cache
def composed(config_name: str, *groups: str) -> DictConfig:
    """Hydra's own composition."""
    return hydras_compose(config_name, groups)


def composed_faster(config_name: str, overrides: list[str], folder: Path | None = None) -> DictConfig:
    """The same as rl.configuration.compose.compose; a twentieth of its time where the groups were composed before."""
    if folder is not None:
        return hydras_compose(config_name, overrides, folder)
    config = copy.deepcopy(composed(config_name, *(word for word in overrides if word.startswith(GROUPS))))
    others = [word for word in overrides if not word.startswith(GROUPS)]
    with compose.override_errors_explained(config_name):
        for override in OverridesParser.create().parse_overrides(others):
            OmegaConf.update(config, override.key_or_group, override.value(), force_add=override.is_add())
    return config


@dataclass(frozen=True)
class Started:
    """A program that a script started, with the variables that it sees."""

    module: str
    overrides: list[str]
    environment: dict[str, str]

    @classmethod
    def of(cls, words: list[str], environment: dict[str, str]) -> "Started":
        flag, module, *overrides = words
        assert flag == "-m" and [word.partition("=")[0] for word in overrides[:2]] == ["experiment", "method"]
        return cls(module, overrides, environment)

    def config(self, composer=composed_faster) -> DictConfig:
        """The configuration that the program would see, resolved."""
        with mock.patch.dict(os.environ, self.environment, clear=True):
            variables.register()
            config = composer(compose.CONFIG_OF[self.module], self.overrides)
            settle(config)
            return config


def values(started: Started) -> dict[str, Any]:
    """Every setting of a program."""
    return dict(flat(OmegaConf.to_container(started.config(), resolve=True)))


class Launcher:
    """Runs scripts in an environment of their own.

    Args:
        folder: for the recorder, what it records, and the scripts' outputs.
    """

    def __init__(self, folder: Path):
        self.folder, self.record = folder, folder / "record.jsonl"
        recorder = folder / "recorder"
        recorder.write_text(RECORDER.format(python=sys.executable))
        recorder.chmod(0o755)
        self.environment = {name: os.environ[name] for name in ("PATH", "HOME")}
        self.environment |= {"PYTHON": str(recorder), "RECORD": str(self.record), "OUTPUT_DIR": str(folder / "out")}
        # With a scorer, and on one machine, the program is all that a script starts.
        self.environment |= {"DPH_SCORER": "http://127.0.0.1:5001", "DEVICE": "cuda"}

    def bash(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["bash", *arguments],
            env=self.environment | environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def run(self, script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        """The script's launcher in this process: what it prints, and its exit code; what it would start is recorded."""
        words, out, err, code = [str(SCRIPTS / f"{script}.sh"), *arguments], io.StringIO(), io.StringIO(), 0
        with self.inside(environment), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                launch.main(words)
            except SystemExit as ended:
                code = ended.code
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    @contextlib.contextmanager
    def inside(self, environment: dict[str, str]) -> Iterator[None]:
        def start(file, words, variables):
            self.record.write_text(json.dumps([words[1:], dict(variables)]) + "\n")

        def run_node(node, words):
            self.record.write_text(json.dumps([asdict(node), words]) + "\n")
            return 0

        variables = self.environment | environment
        with (
            mock.patch.dict(os.environ, variables, clear=True),
            mock.patch.object(os, "execvpe", start),
            mock.patch.object(launch, "run_node", run_node),
            mock.patch("rl.configuration.compose.compose", composed_faster),
        ):
            yield

    def started(self) -> Started | None:
        """What was started since the last call, at most one program."""
        if not self.record.exists():
            return None
        [line] = self.record.read_text().splitlines()
        self.record.unlink()
        words, environment = json.loads(line)
        return Started.of(words, environment)

    def dry_run(self, script: str, *arguments: str, **environment: str) -> Started:
        """What the script would start; needs none of the files."""
        finished = self.run(script, *arguments, "--dry-run", **environment)
        assert finished.returncode == 0, finished.stderr
        assert self.started() is None and not (self.folder / "out").exists()
        words = shlex.split(finished.stdout.replace("\\\n", " "))[1:]
        start = words.index("-m")
        printed = dict(word.split("=", 1) for word in words[: start - 1])
        return Started.of(words[start:], self.environment | environment | printed)


@pytest.fixture
def launcher(tmp_path) -> Launcher:
    return Launcher(tmp_path)


@pytest.fixture
def files(tmp_path) -> dict[str, str]:
    """Variables that name an empty file for everything that a script looks for."""
    (tmp_path / "model").mkdir()
    (tmp_path / "unsolved").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "llama", "max_position_embeddings": 131072}')
    for name in ("train", "val", "train_wrong", "train_correct", "unsolved/train_wrong"):
        (tmp_path / f"{name}.parquet").touch()
    for name in ("pef.pt", "foreign.pt"):
        (tmp_path / name).touch()
    return {
        "DATA_DIR": str(tmp_path),
        "TRAIN_FILE": str(tmp_path / "train.parquet"),
        "VAL_FILES": str(tmp_path / "val.parquet"),
        "SFT_PT": str(tmp_path / "pef.pt"),
        "MODEL_PATH": str(tmp_path / "model"),
    }
