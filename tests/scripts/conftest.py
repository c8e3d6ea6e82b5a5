"""Run the launch scripts with a recorder in the place of Python, and compose what it was given."""

import copy
import functools
import json
import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from rl.configuration.composition import CONFIG_DIR

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPTS = REPOSITORY / "scripts"
CONFIGS = {"verl.dph.main": "dph_trainer", "verl.dph.presample": "presample"}
# Writes its arguments and the environment as JSON lines to $RECORD; "-c" asks whether it has verl; plans are real.
RECORDER = """#!/bin/sh
[ "$1" != -c ] || exit "${{RECORDER_LACKS_VERL:-0}}"
[ "$2" != rl.planning.for_script ] || exec {python} "$@"
exec {python} -c 'import json, os, sys
print(json.dumps([sys.argv[1:], dict(os.environ)]), file=open(os.environ["RECORD"], "a"))
sys.exit(int(os.environ.get("RECORDER_EXITS", 0)))' "$@"
"""


@dataclass(frozen=True)
class Started:
    """A program that a script started."""

    module: str
    overrides: list[str]
    environment: dict[str, str]

    @classmethod
    def of(cls, words: list[str], environment: dict[str, str]) -> "Started":
        flag, module, *overrides = words
        assert flag == "-m" and overrides[0].startswith("device=")
        return cls(module, overrides, environment)

    def config(self) -> DictConfig:
        """The configuration that the program would see; a twentieth of the time that Hydra takes to compose it."""
        config = copy.deepcopy(composed(self.module, self.overrides[0]))
        for override in OverridesParser.create().parse_overrides(self.overrides[1:]):
            OmegaConf.update(config, override.key_or_group, override.value(), force_add=override.is_add())
        return config


@functools.cache
def composed(module: str, *overrides: str) -> DictConfig:
    """Hydra's own composition."""
    with initialize_config_dir(str(CONFIG_DIR), version_base=None):
        return compose(CONFIGS[module], list(overrides))


class Launcher:
    """Runs scripts in an environment of their own.

    Args:
        folder: for the recorder, what it records, and the scripts' outputs.
        python: the interpreter that the recorder is written in.
    """

    def __init__(self, folder: Path, python: str):
        self.folder, self.record = folder, folder / "record.jsonl"
        recorder = folder / "recorder"
        recorder.write_text(RECORDER.format(python=python))
        recorder.chmod(0o755)
        self.environment = {name: os.environ[name] for name in ("PATH", "HOME")}
        self.environment |= {"PYTHON": str(recorder), "RECORD": str(self.record), "OUTPUT_DIR": str(folder / "out")}
        # With a scorer, and on one machine, the program is all that a script starts.
        self.environment |= {"DPH_SCORER": "http://127.0.0.1:5001", "DEVICE": "cuda", "GPU_TYPE": "a800"}

    def run(self, script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        """`script` is a path below scripts, without .sh."""
        return self.bash(str(SCRIPTS / f"{script}.sh"), *arguments, **environment)

    def bash(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["bash", *arguments],
            env=self.environment | environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def started(self) -> Started | None:
        """What was started since the last call, at most one program."""
        if not self.record.exists():
            return None
        [line] = self.record.read_text().splitlines()
        self.record.unlink()
        words, environment = json.loads(line)
        return Started.of(words, environment)

    def dry_run(self, script: str, *arguments: str, **environment: str) -> Started:
        """What the script would start, as its --dry-run prints it; needs none of the files, and no Python."""
        finished = self.run(script, *arguments, "--dry-run", **environment, PYTHON="no-python")
        assert finished.returncode == 0, finished.stderr
        assert self.started() is None and not (self.folder / "out").exists()
        words = shlex.split(finished.stdout.replace("\\\n", " "))
        words = words[words.index("env") + 1 :]
        start = words.index("no-python")
        return Started.of(words[start + 1 :], dict(word.split("=", 1) for word in words[:start]))


@pytest.fixture
def launcher(tmp_path) -> Launcher:
    # A system's Python starts faster than the environment's, and imports nothing here.
    return Launcher(tmp_path, "python3")


@pytest.fixture
def files(tmp_path) -> dict[str, str]:
    """Variables that name an empty file for everything that a script looks for."""
    names = {
        "TRAIN_FILE": "train.parquet",
        "TRAIN_WRONG": "wrong.parquet",
        "TRAIN_CORRECT": "correct.parquet",
        "TRAIN_UNSOLVED": "unsolved.parquet",
        "VAL_FILES": "val.parquet",
        "SFT_PT": "pef.pt",
        "FOREIGN_PT": "foreign.pt",
    }
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "llama"}')
    for name in names.values():
        (tmp_path / name).touch()
    return {variable: str(tmp_path / name) for variable, name in names.items()} | {
        "BASELINE_FILES": f"{tmp_path / 'wrong.parquet'},{tmp_path / 'correct.parquet'}",
        "MODEL_PATH": str(tmp_path / "model"),
    }
