"""Settings of `python -m verl.dph.presample`. sampling.py has the engine's settings."""

from rl.configuration.setting import MISSING, Count, Path, Paths, Section


class Presample(Section, at="presample"):
    """What is sampled, and where it is written."""

    n: Count = 8
    """Samples per prompt, drawn with actor_rollout_ref.rollout's temperature, top_p, top_k and seed."""
    output: Path = MISSING
    """The file of samples, one JSON line each (rl/data/sample_file.py). An unfinished file with the same settings is
    resumed."""
    log_probs: bool = True
    """Store the engine's log-prob of every response token; false halves the file."""
    max_in_flight: Count | None = None
    """Concurrent requests to the engine; null: twice what the replicas can batch."""


class Data(Section, at="data"):
    train_files: Paths | None
