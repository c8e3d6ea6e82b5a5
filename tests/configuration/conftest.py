"""Runs without the settings of this machine's environment."""

import pytest


@pytest.fixture
def environment(monkeypatch):
    for name in ("DEVICE", "NNODES", "GPUS_PER_NODE", "MODEL_PATH", "PYTHON", "DPH_SCORER"):
        monkeypatch.delenv(name, raising=False)

    def set_all(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_all
