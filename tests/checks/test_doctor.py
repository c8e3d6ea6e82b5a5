"""The program: the whole of it on this machine, and what it says of pre-sampling that cannot start."""

import json
import shutil
import subprocess
import sys

from rl.configuration.arguments import run_of
from tests.checks.conftest import SCRIPT, SMALL
from tests.programs import REPOSITORY
from verl.dph.checks import run as of_verl

PRESAMPLE = "scripts/llama/offline_sampling.sh"


def test_a_run_that_can_start(variables):
    """On this machine, with the scorer that the script would start; every check has its line."""
    command = [sys.executable, "-m", "rl.cli", "doctor", SCRIPT, "mine", "0.2", *SMALL]
    done = subprocess.run(command, env=variables, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    checks, _, verdict = done.stdout.partition("\n\n")
    assert verdict == "No check failed.\n"
    lines = {line[:14].strip(): line[15:] for line in checks.splitlines()}
    assert list(lines) == [
        *("python", "verl", "shared memory", "torch", "GPUs", "vLLM"),
        *("settings", "groups", "batch", "files", "model"),
        *("rules", "tokenizer", "checkpoint", "disk", "data", "lengths"),
        *("store", "scorer", "verl's checks"),
    ]
    assert {line.split()[0] for line in lines.values()} <= {"ok", "skipped"}
    assert lines["GPUs"].startswith("skipped ")
    assert "1 x 1 ranks on cpu" in lines["settings"]
    assert lines["tokenizer"] == "ok       llama, 64 tokens" and "starts at step 0" in lines["checkpoint"]
    assert "a checkpoint takes about 0.272 MB" in lines["disk"]  # 22,688 parameters x 12 bytes
    assert "sql.yaml starts: http://127.0.0.1:" in lines["scorer"] and "databases asked: 1" in lines["scorer"]


def test_a_tokenizer_of_another_model(variables, run_files, tmp_path, monkeypatch):
    """Pre-sampling, where nothing else loads a tokenizer before Ray; no scorer answers at an address that is given."""
    model = tmp_path / "model"
    shutil.copytree(run_files / "model", model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"vocab_size": 60}))
    data = {"TRAIN_FILE": str(run_files / "train_wrong.parquet"), "DPH_SCORER": "http://127.0.0.1:1"}
    for name, value in (variables | data | {"MODEL_PATH": str(model), "VERL_PLATFORM": "cpu"}).items():
        monkeypatch.setenv(name, value)
    run = run_of(PRESAMPLE, ())
    found = dict(of_verl.findings(run.config, run.program, 0.0))
    assert list(found) == ["settings", "groups", "batch", "files", "model", "rules", "tokenizer", "data", "scorer"]
    assert found["settings"].found == "1 x 1 ranks on cpu"
    assert "has 64 tokens and its config.json a vocab_size of 60" in found["tokenizer"].found
    assert found["scorer"].status == "fail" and "127.0.0.1:1" in found["scorer"].found
