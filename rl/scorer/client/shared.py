"""One client, with its session and view of the servers, for each event loop and settings."""

import asyncio
import atexit
import json
import logging
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from rl.common.errors import UserError
from rl.scorer.client.protocol import Score
from rl.scorer.client.scorer_client import ScorerClient

logger = logging.getLogger(__name__)

SCORER_VARIABLE = "DPH_SCORER"

_clients: dict[tuple, ScorerClient] = {}
_broken_questions: set[str] = set()
_CLOSE_S = 2.0


def scorer_address(scorer: str | Sequence[str] | None) -> str | Sequence[str]:
    """`scorer`, else $DPH_SCORER."""
    address = scorer or os.environ.get(SCORER_VARIABLE)
    if not address:
        raise UserError(
            f"No scorer server is named: set the environment variable {SCORER_VARIABLE} (in a configuration of verl, "
            "reward.custom_reward_function.reward_kwargs.scorer) to an address such as http://host:port, to several "
            "with commas between them, or to a folder of address files."
        )
    return address


def shared_client(scorer: str | Sequence[str] | None = None, **settings: Any) -> ScorerClient:
    """The client of the running event loop for these servers and settings, made at the first call.

    Args:
        scorer: see ServerPool; None: $DPH_SCORER.
        settings: fields of RequestSettings.
    """
    address = scorer_address(scorer)
    servers = address if isinstance(address, str) else tuple(address)
    key = (asyncio.get_running_loop(), servers, *sorted(settings.items()))
    if key not in _clients:
        _clients[key] = ScorerClient(address, **settings)
    return _clients[key]


async def score_response(
    response: str, question: Mapping[str, Any], scorer: str | Sequence[str] | None = None, **settings: Any
) -> Score:
    """The score of one response, from the shared client. Warns once for each question that cannot be evaluated.

    Args:
        response, question: see ScorerClient.score, which has the errors too.
        scorer, settings: see shared_client.
    """
    result = await shared_client(scorer, **settings).score(response, question)
    if result.gold_error and (key := json.dumps(question, sort_keys=True)) not in _broken_questions:
        _broken_questions.add(key)
        logger.warning(
            "The reference of a prompt cannot be evaluated (%s: %s); it trains nothing: %.300s",
            result.outcome,
            result.error,
            question,
        )
    return result


async def close_shared_clients() -> None:
    """Close the clients of the running event loop."""
    for key in [key for key in _clients if key[0] is asyncio.get_running_loop()]:
        await _clients.pop(key).close()


@atexit.register
def _close_at_exit() -> None:
    """Close the sessions of loops that still run, such as TRL's and, on a CPU, verl's: aiohttp complains otherwise."""
    for (loop, *_), client in _clients.items():
        if loop.is_running():
            with suppress(TimeoutError, CancelledError):
                asyncio.run_coroutine_threadsafe(client.close(), loop).result(_CLOSE_S)
