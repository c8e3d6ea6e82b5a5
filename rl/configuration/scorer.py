"""How every program that scores responses asks the scorer's servers."""

from typing import Annotated

from rl.configuration.setting import CountOrZero, Positive, PositiveOrZero, Setting

_FUNCTION = "reward.custom_reward_function"
_SCORER = f"{_FUNCTION}.reward_kwargs"

SCORER = (
    Setting(f"{_FUNCTION}.path", str, "pkg://verl.dph.reward.score", "Module of the reward function."),
    Setting(f"{_FUNCTION}.name", str, "compute_score", "Name of the reward function in its module."),
    Setting(
        f"{_SCORER}.scorer",
        Annotated[str | list, "an address, or several"] | None,
        '${oc.env:DPH_SCORER,"http://127.0.0.1:5001"}',
        "Scorer servers: an address, a comma-separated list, or a directory of address files.",
        may_change=True,
    ),
    Setting(
        f"{_SCORER}.timeout",
        Positive,
        180,
        "Timeout of one request in seconds; above the server's request_seconds (120).",
        may_change=True,
    ),
    Setting(
        f"{_SCORER}.retries",
        CountOrZero,
        8,
        "Retries of a failed request, with growing pauses (8: about 90 s), before a response counts as not scored.",
        may_change=True,
    ),
    Setting(
        f"{_SCORER}.busy_limit",
        PositiveOrZero,
        1800,
        "Seconds for which healthy servers may be busy before a response counts as not scored.",
        may_change=True,
    ),
)
