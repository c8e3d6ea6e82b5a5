"""Every setting that DPH-RL adds to verl's configuration, and verl's settings whose values it changes or checks.

A setting is stated once, in the table of its program: training.py, sampling.py (pre-sampling, and what it shares with
evaluation) or evaluate.py. scorer.py has the settings that all three share. Hydra's defaults, the checks before a run,
`--help`, docs/reference/settings.md, the actor's dataclass and the changes that a resumed run may make derive from
these tables. Nothing here imports verl or torch.
"""

from pathlib import Path

ACTOR = "actor_rollout_ref.actor"

# rl and verl.dph are installed side by side, in a checkout and in site-packages.
CONFIG_DIR = Path(__file__).resolve().parents[2] / "verl" / "dph" / "config"


# Tokens of the rows with which verl fills a step up (SYNTHETIC_PADDING_SEQ_LEN of trainer/ppo/padding_utils.py).
PADDING_ROW = 128


def micro_batch_tokens(longest_row: int, dense_mask: bool) -> int:
    """Tokens of a micro-batch if actor.ppo_max_token_len_per_gpu is null: verl's default, or the longest row's if that
    is more; with a dense mask, whose time per token grows with the micro-batch, the longest row's or verl's padding's.
    """
    return max(PADDING_ROW if dense_mask else 16384, longest_row)
