"""Every setting that DPH-RL adds to verl's configuration, and verl's settings whose values it changes or checks.

A setting is stated once, in the table of its program: training.py, presample.py, evaluate.py, sampling.py (what the
last two share) and scorer.py (what all three share). Hydra's defaults, the checks before a run, `--help`,
docs/reference/settings.md, the actor's dataclass and what a resumed run may change derive from it. Nothing here imports
verl or torch.
"""

from pathlib import Path

ACTOR = "actor_rollout_ref.actor"
# Tokens of a micro-batch if actor.ppo_max_token_len_per_gpu is null and the longest row is shorter: verl's default.
MICRO_BATCH_TOKENS = 16384

# rl and verl.dph are installed side by side, in a checkout and in site-packages.
CONFIG_DIR = Path(__file__).resolve().parents[2] / "verl" / "dph" / "config"
