"""Advantage estimators that verl lacks or that need mending (docs/explanation/baselines.md).

verl's trainer calls an estimator once per update with the rows of whole groups: B rows, T the longest response, `index`
(B,) the name of each row's prompt. All tokens of a response have the same advantage, and returns equal advantages.
verl's padding rows are a group of their own without a token that counts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import comb
from types import ModuleType

import numpy as np
import torch
from omegaconf import DictConfig

from rl.common.errors import UserError
from rl.common.outcomes import is_correct
from verl.dph.objective.success_cap import groups_of

MAXRL, PKPO, W_REINFORCE, GRPO_PASSK = "maxrl", "pkpo", "w_reinforce", "grpo_passk"


def likelihood_advantages(accuracies: Mapping[str, float | None]) -> dict[str, float]:
    """Maximum likelihood RL (arXiv 2602.02710): (c - p) / p, with c = 1 for a correct sample, p the group's mean of c.

    The mean over a group of n, times grad log pi, has the expectation grad P (1 - (1 - P)^(n-1)) / P, where P is the
    probability of a correct response: the gradient of log P, cut off after n - 1 terms of grad Pass@k / k. The
    advantages of a group sum to 0; without a correct sample, or with one sample, they are 0.

    Args:
        accuracies: see `success_cap.groups_of`. Rewards do not count, so that partial credit and DAPO's penalty for
            long responses change nothing.

    Returns:
        An advantage by sample.

    Raises:
        UserError: a response has no `acc`.
    """
    found: dict[str, float] = {}
    for group in groups_of(accuracies, f"algorithm.adv_estimator={MAXRL}").values():
        correct, wrong = sum(group.values()), len(group) - sum(group.values())
        of_wrong = -1.0 if correct else 0.0
        found |= {sample: wrong / correct if right else of_wrong for sample, right in group.items()}
    return found


def maxrl(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, *, of_rows: Sequence[float], **_
) -> tuple[torch.Tensor, torch.Tensor]:
    """MaxRL as an estimator of verl's, which gives no verdicts: `give_verdicts` binds `of_rows`.

    Args:
        of_rows: (B,) the advantage of each row.
    """
    return _of_tokens(torch.tensor(of_rows).to(token_level_rewards), response_mask)


def give_verdicts(keys: Sequence[str], accuracies: Mapping[str, float | None]) -> None:
    """Let `maxrl` use these verdicts in the next update of this process.

    Args:
        keys: of the batch's rows in their order, "<prompt>_<sample>_<output>". All outputs of a sample have its
            advantage; padding rows have no verdict and the advantage 0.
        accuracies: see `likelihood_advantages`.
    """
    from verl.trainer.ppo import core_algos

    found = likelihood_advantages(accuracies)
    of_rows = [found.get(key.rsplit("_", 1)[0], 0.0) for key in keys]
    core_algos.ADV_ESTIMATOR_REGISTRY[MAXRL] = partial(maxrl, of_rows=of_rows)


def pkpo(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: np.ndarray, config: DictConfig, **_
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pass@k policy optimization (Walder and Karkhanis 2025, arXiv 2505.15201): s^(loo-1), equation 33, times n.

    Args:
        config: `algorithm`, with pkpo_k. A group that has lost rollouts takes at most its size.
    """
    rewards = token_level_rewards.sum(dim=-1)
    advantages = torch.zeros_like(rewards)
    groups, number = np.unique(index, return_inverse=True)
    for group in range(len(groups)):
        rows = np.flatnonzero(number == group)
        if len(rows) > 1:
            advantages[rows] = leave_one_out_max(rewards[rows], min(config.pkpo_k, len(rows)))
    return _of_tokens(advantages, response_mask)


def leave_one_out_max(rewards: torch.Tensor, k: int) -> torch.Tensor:
    """What each response adds to the best of k responses: n times the mean of max(I) - max(I without i) over all
    subsets I of k of the n responses, 0 where i is not in I.

    Its mean over the group, times grad log pi, is an unbiased gradient of E[max of k], which is Pass@k for rewards 0
    and 1. A response j that is worse than i is the best of the others in C(rank of j, k - 2) of the subsets with i.

    Args:
        rewards: (n,) of one prompt, n at least 2.
        k: from 2 to n; with n it is n times the advantage of `grpo_passk` before the division by the deviation.

    Returns:
        (n,) in the dtype of rewards, 0 or more.
    """
    n = len(rewards)
    ordered, order = rewards.double().sort()
    weights = torch.tensor([n * comb(rank, k - 2) / comb(n, k) for rank in range(n)], dtype=torch.float64)
    found = torch.zeros_like(ordered)
    found[order] = (ordered[:, None] - ordered).clamp(min=0) @ weights.to(ordered)
    return found.to(rewards.dtype)


def w_reinforce(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, config: DictConfig, **_
) -> tuple[torch.Tensor, torch.Tensor]:
    """W-REINFORCE (Zhu et al. 2025, arXiv 2506.01347): lambda for a correct response, -1 for any other, no baseline.

    Args:
        config: `algorithm`, with w_reinforce_lambda; 0 is negative-sample reinforcement.
    """
    rewards = token_level_rewards.sum(dim=-1)
    correct = torch.tensor([is_correct(reward) for reward in rewards.tolist()], device=rewards.device)
    return _of_tokens(torch.where(correct, config.w_reinforce_lambda, -torch.ones_like(rewards)), response_mask)


def check_rewards(infos: Iterable[dict]) -> None:
    """Reject rewards that would make `w_reinforce` count a correct response as wrong.

    Args:
        infos: what the reward function returned for each response.

    Raises:
        UserError: a correct response has another reward than 1.
    """
    for info in infos:
        if info.get("acc") == 1 and not is_correct(info.get("score", 1)):
            raise UserError(
                f"A correct response has a reward of {info['score']:g}, and algorithm.adv_estimator={W_REINFORCE} "
                "knows one by a reward of 1: use a reward model that gives 1 (docs/reference/scorer.md)."
            )


def without_padding(
    estimator: Callable,
    smallest_group: int,
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: np.ndarray,
    **others,
) -> tuple[torch.Tensor, torch.Tensor]:
    """verl's `estimator` on groups of at least `smallest_group` rows with a token that counts; 0 for all other rows.

    A single row without such a token need not be padding: rollout correction masks whole responses before.
    """
    _, group, sizes = np.unique(index, return_inverse=True, return_counts=True)
    tokens = np.bincount(group, weights=response_mask.sum(dim=-1).cpu().numpy())
    real = torch.from_numpy(((sizes >= smallest_group) & (tokens > 0))[group])
    rewards, index = token_level_rewards[real], index[real.numpy()]
    advantages = torch.zeros_like(token_level_rewards)
    advantages[real], _ = estimator(
        token_level_rewards=rewards, response_mask=response_mask[real], index=index, **others
    )
    return advantages, advantages


def register(core_algos: ModuleType) -> None:
    """Register the estimators that verl lacks.

    Args:
        core_algos: verl.trainer.ppo.core_algos; the plugin calls this once it is imported.
    """
    core_algos.register_adv_est(MAXRL)(maxrl)
    core_algos.register_adv_est(PKPO)(pkpo)
    core_algos.register_adv_est(W_REINFORCE)(w_reinforce)


def leave_out_padding() -> None:
    """Let verl's estimators that depend on padding rows ignore them in this process."""
    from verl.trainer.ppo import core_algos

    # Of padding rows, opo makes NaN (0 tokens divided by 0 tokens) for the whole mini-batch; gpg counts them as
    # responses, which enlarges the others' advantages; and grpo_passk fails on any group of one.
    for name, verls, smallest_group in (
        ("opo", core_algos.compute_opo_outcome_advantage, 1),
        ("gpg", core_algos.compute_gpg_outcome_advantage, 1),
        (GRPO_PASSK, core_algos.compute_grpo_passk_outcome_advantage, 2),
    ):
        core_algos.ADV_ESTIMATOR_REGISTRY[name] = partial(without_padding, verls, smallest_group)


def _of_tokens(advantages: torch.Tensor, response_mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = advantages[:, None] * response_mask
    return tokens, tokens
