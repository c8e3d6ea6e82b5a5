"""`python -m verl.dph.presample` as a user runs it: verl's rollout replica (hf), the real scorer, a tiny random model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from verl.dph.fingerprint import file_sha256, model_hash, tokenizer_hash
from verl.dph.records import metadata_path, read_metadata, read_samples
from verl.dph.sample_summary import summarize

N = 4


def presample(folder: Path, *overrides: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "verl.dph.presample", "device=cpu", f"presample.n={N}", *overrides]
    environment = os.environ | {"VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": "1", "TMPDIR": "/tmp"}
    environment.pop("DPH_SCORER", None)
    return subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=folder, env=environment)


@pytest.fixture
def overrides(model_folder, train_parquet, scorer_server, tmp_path):
    return {
        "actor_rollout_ref.model.path": model_folder,
        "data.train_files": train_parquet,
        "data.max_prompt_length": 16,
        "data.max_response_length": 4,
        "presample.output": tmp_path / "samples" / "0.jsonl",
        "reward.custom_reward_function.reward_kwargs.scorer": scorer_server,
    }


def words(overrides: dict) -> list[str]:
    return [f"{key}={value}" for key, value in overrides.items()]


def sorted_records(path):
    return sorted(read_samples(path), key=lambda record: (record.id, record.sample))


def test_end_to_end_and_resumed(overrides, tmp_path, model_folder, train_parquet, tokenizer):
    done = presample(tmp_path, *words(overrides))
    assert done.returncode == 0, done.stderr[-4000:]
    path = overrides["presample.output"]
    records = sorted_records(path)
    assert [(r.id, r.sample) for r in records] == [(10 + i, s) for i in range(6) for s in range(N)]
    assert all(1 <= len(r.response_ids) <= 4 for r in records)
    assert all(r.output == tokenizer.decode(r.response_ids, skip_special_tokens=True) for r in records)
    assert len({tuple(r.response_ids) for r in records}) > 3
    metadata = read_metadata(path)
    assert (metadata.model_hash, metadata.tokenizer_hash) == (model_hash(model_folder), tokenizer_hash(model_folder))
    assert metadata.data_files == {str(train_parquet): file_sha256(train_parquet)}
    assert (metadata.temperature, metadata.top_p, metadata.n, metadata.rows) == (1.0, 0.95, N, 6)

    summary = summarize(path)
    assert str(summary) in done.stdout
    assert summary.outcomes.total() == 24 and summary.prompts_by_correct.total() == 6
    assert summary.pass_at(1) == pytest.approx(sum(r.acc for r in records) / 24)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["samples"]

    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:7]) + lines[7][:20])
    again = presample(tmp_path, *words(overrides))
    assert again.returncode == 0, again.stderr[-4000:]
    assert "now: 17 samples" in again.stdout
    assert sorted_records(path) == records


@pytest.fixture
def in_process(monkeypatch, capsys):
    """Runs the program in this process: for what ends before Ray starts."""
    import runpy

    from hydra.core.global_hydra import GlobalHydra

    def run(overrides):
        monkeypatch.setattr(sys, "argv", ["presample", "device=cpu", f"presample.n={N}", *words(overrides)])
        GlobalHydra.instance().clear()
        with pytest.raises(SystemExit) as stop:
            runpy.run_module("verl.dph.presample", run_name="__main__")
        return stop.value.code, capsys.readouterr().err

    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    return run
