"""What wandb and swanlab are told of a run."""

import os

import pytest
from omegaconf import OmegaConf

from verl.dph.training import tracking


@pytest.fixture
def config(tmp_path):
    settings = {"logger": ["console", "wandb", "swanlab"], "tags": ["js", "${data.sft_pt}", 3]}
    settings["default_local_dir"] = str(tmp_path / "run")
    return OmegaConf.create({"data": {"sft_pt": None}, "trainer": settings})


@pytest.fixture
def environment(monkeypatch):
    for name in [name for name in os.environ if name.startswith(("WANDB_", "SWANLAB_"))]:
        monkeypatch.delenv(name)
    before = dict(os.environ)
    yield os.environ
    for name in set(os.environ) - set(before):
        del os.environ[name]


def test_a_later_log_has_a_later_name_wherever_the_clock_is(config, environment, monkeypatch):
    """A resumed run's log comes last: readers take the files by name."""
    config.trainer.logger = ["file"]
    logs, times = [], iter(["20260701-100000", "20260701-043000", "20260701-043001", "20260701-100001"])
    monkeypatch.setattr(tracking.time, "strftime", lambda *_: next(times))
    for _ in range(4):
        environment.pop("VERL_FILE_LOGGER_PATH", None)
        tracking.set_environment(config)
        logs.append(environment["VERL_FILE_LOGGER_PATH"])
        open(logs[-1], "w").close()
    assert len({*logs}) == 4 and sorted(logs) == logs


def test_the_services_get_the_tags_and_write_into_the_runs_folder(config, environment):
    tracking.set_environment(config)
    for name in ("TENSORBOARD_DIR", "WANDB_DIR", "SWANLAB_LOG_DIR"):
        assert environment[name].startswith(config.trainer.default_local_dir)
    assert environment["WANDB_TAGS"] == environment["SWANLAB_TAGS"] == "js,None,3"
