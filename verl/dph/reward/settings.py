"""Scorer address, timeouts and retries: reward.custom_reward_function.reward_kwargs and $DPH_SCORER."""

import os
from collections.abc import Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rl.common.errors import UserError

SCORER_VARIABLE = "DPH_SCORER"

# How long a program waits for the first healthy server.
SCORER_WAIT_S = 30.0


def scorer_settings(config: DictConfig) -> dict[str, Any]:
    """ScorerClient's arguments from reward.custom_reward_function.reward_kwargs, as compute_score reads them."""
    kwargs = OmegaConf.to_container(
        config.reward.custom_reward_function.get("reward_kwargs") or OmegaConf.create({}), resolve=True
    )
    names = {"timeout": "timeout_s", "retries": "retries", "busy_limit": "busy_limit_s"}
    options = {names[name]: value for name, value in kwargs.items() if name in names}
    return {"scorer": scorer_address(kwargs.get("scorer"))} | options


def scorer_address(setting: str | Sequence[str] | None) -> str | Sequence[str]:
    """The setting, else $DPH_SCORER.

    Raises:
        UserError: neither is set.
    """
    address = setting or os.environ.get(SCORER_VARIABLE)
    if not address:
        raise UserError(
            "No scorer server is named: set reward.custom_reward_function.reward_kwargs.scorer or the environment "
            f"variable {SCORER_VARIABLE} to an address (http://host:port), a comma-separated list of them, or a "
            "directory of address files."
        )
    return address
