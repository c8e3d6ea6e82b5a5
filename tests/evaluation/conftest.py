"""Run folders as training leaves them, with made-up metrics and dumps."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest


class MadeUpRun:
    """A run's folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True)

    def record(self, step: int, total_steps: int) -> "MadeUpRun":
        content = {"format": "dph-run/1", "step": step, "total_steps": total_steps, "validations": {}}
        (self.folder / "dph_run.json").write_text(json.dumps(content))
        return self

    def log(self, steps: Mapping[int, Mapping[str, float]], name: str = "20260101-000000") -> "MadeUpRun":
        path = self.folder / "metrics" / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        lines = [json.dumps({"step": step, "data": data}) + "\n" for step, data in steps.items()]
        path.write_text("".join(lines))
        return self


@pytest.fixture
def made_up_run(tmp_path):
    return lambda name: MadeUpRun(tmp_path / name)
