"""Settings of the scorer's client, for every program that scores responses."""

from rl.common.time_limits import BUSY_LIMIT_S, CLIENT_REQUEST_S, RETRIES
from rl.configuration.setting import CountOrZero, Positive, PositiveOrZero, Section

_FUNCTION = "reward.custom_reward_function"


class Function(Section, at=_FUNCTION):
    """The reward function that verl calls."""

    path: str = "pkg://verl.dph.reward.score"
    """Module of the reward function."""
    name: str = "compute_score"
    """Name of the reward function in its module."""


class Client(Section, at=f"{_FUNCTION}.reward_kwargs", may_change=True):
    """The servers, and how long the client waits for them."""

    scorer: str | list | None = "${oc.env:DPH_SCORER,null}"
    """Scorer servers: an address, a comma-separated list, or a directory of address files."""
    timeout: Positive = CLIENT_REQUEST_S
    """Timeout of one request in seconds; it must exceed the server's request_seconds."""
    retries: CountOrZero = RETRIES
    """Retries of a failed request, with growing pauses (8 take about 90 s), before a response counts as not scored."""
    busy_limit: PositiveOrZero = BUSY_LIMIT_S
    """Seconds that the client waits for busy servers before a response counts as not scored."""


SCORER = (Function, Client)
