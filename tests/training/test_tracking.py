"""The file that a run's metrics are logged in."""

import os
from unittest import mock

from omegaconf import OmegaConf

from verl.dph.training import tracking


def test_swanlab_needs_no_network_offline(tmp_path):
    """verl logs in with the key, whatever the mode, and the run would end before its first step."""
    config = OmegaConf.create({"trainer": {"logger": [], "default_local_dir": str(tmp_path)}})
    for mode in ("cloud", "offline"):
        with mock.patch.dict(os.environ, SWANLAB_API_KEY="k", SWANLAB_MODE=mode):
            tracking.set_environment(config)
            assert ("SWANLAB_API_KEY" in os.environ) == (mode == "cloud")


def test_a_later_log_has_a_later_name_wherever_the_clock_is(tmp_path, monkeypatch):
    """A resumed run's log comes last: readers take the files by name."""
    settings = {"logger": ["file"], "default_local_dir": str(tmp_path / "run")}
    config = OmegaConf.create({"trainer": settings})
    logs, times = [], iter(["20260701-100000", "20260701-043000", "20260701-043001", "20260701-100001"])
    monkeypatch.setattr(tracking.time, "strftime", lambda *_: next(times))
    for _ in range(4):
        with mock.patch.dict(os.environ):
            os.environ.pop("VERL_FILE_LOGGER_PATH", None)
            tracking.set_environment(config)
            logs.append(os.environ["VERL_FILE_LOGGER_PATH"])
        open(logs[-1], "w").close()
    assert len({*logs}) == 4 and sorted(logs) == logs
