"""The reward of slime's samples: --custom-rm-path rl.scorer.client.slime.reward."""

import asyncio
from typing import Any

from rl.scorer.client.shared import score_response
from rl.scorer.labels import question_of_label, without_ends


async def reward(args: Any, sample: Any, **_: Any) -> float | list[float]:
    """The reward of a slime Sample, from its response and label; for a list of samples, the list of their rewards.

    A sample whose reference cannot be evaluated gets 0 and remove_sample, with which slime leaves it out of the loss.

    Args:
        args: slime's; rm_url is the scorer's address, None: $DPH_SCORER.
        sample: its label holds a question (see question_of_label).

    Raises:
        ValueError: a label names no database and no answer.
        ScorerUnavailable, ScorerRefused, ScorerMismatch: see ScorerClient.score; slime stops.
    """
    if isinstance(sample, list):
        return list(await asyncio.gather(*(_reward(args, one) for one in sample)))
    return await _reward(args, sample)


async def _reward(args: Any, sample: Any) -> float:
    response = without_ends(sample.response)
    result = await score_response(response, question_of_label(sample.label), args.rm_url)
    if result.gold_error:
        sample.remove_sample = True
    return result.reward
