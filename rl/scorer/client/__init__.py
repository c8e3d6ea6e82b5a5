"""The client of the scorer server, for any trainer. It needs aiohttp (the extra `client`) and nothing of the server.

A failure of the server raises after its retries and is never a reward of 0. trl.py and verifiers.py are what these
trainers call (docs/howto/scorer.md); verl's reward function is verl/dph/reward/score.py.
"""

from rl.scorer.client.trl import MathReward, SQLReward

__all__ = ["MathReward", "SQLReward"]
