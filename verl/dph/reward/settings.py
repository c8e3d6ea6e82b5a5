"""Scorer address, timeouts and retries in verl's configuration: reward.custom_reward_function.reward_kwargs."""

from typing import Any

from omegaconf import DictConfig, OmegaConf

from rl.scorer.client.shared import scorer_address

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
