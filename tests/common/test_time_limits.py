"""Whoever waits allows more time than what it waits for takes."""

from rl.common import time_limits as limits
from rl.configuration.programs import PROGRAMS
from rl.configuration.setting import settings_of
from rl.scorer.config import MathSettings, ServerSettings, SqlSettings, TaskSettings


def test_those_who_wait_outlast_what_they_wait_for():
    assert limits.WORKER_START_S < limits.SERVER_START_S
    assert limits.REQUEST_S < limits.CLIENT_REQUEST_S
    for scorer in (SqlSettings, MathSettings, TaskSettings):
        seconds = {name: field.default for name, field in scorer.model_fields.items() if name.endswith("_seconds")}
        # Gold and prediction have a grace each.
        assert sum(seconds.values()) + seconds["grace_seconds"] < limits.REQUEST_S, scorer


def test_the_defaults_are_these_limits():
    client = {setting.key: setting.default for setting in settings_of(PROGRAMS["dph_trainer"])}
    (timeout,) = (value for key, value in client.items() if key.endswith("reward_kwargs.timeout"))
    assert timeout == limits.CLIENT_REQUEST_S
    assert ServerSettings().request_seconds == limits.REQUEST_S
