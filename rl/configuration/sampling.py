"""Settings of `python -m verl.dph.presample`, and of prompts and engine that `python -m verl.dph.evaluate` has too."""

from typing import Any

from rl.configuration.setting import (
    MISSING,
    Count,
    CountOrZero,
    Path,
    Paths,
    PositiveOrZero,
    Section,
    Seed,
    Share,
    TopK,
)

_NODES: Any = "${trainer.nnodes}"


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


class Prompts(Section, at="data"):
    """Which prompts are sampled."""

    filter_overlong_prompts: bool = False
    """false: a prompt longer than data.max_prompt_length is an error. true: such prompts are left out and counted."""
    # verl's
    max_prompt_length: Count
    max_response_length: Count


class Rollout(Section, at="actor_rollout_ref.rollout"):
    """The engine, and how it samples."""

    load_format: str = "auto"
    """Read the weights from the model's folder: verl expects an actor to send them."""
    nnodes: CountOrZero = _NODES
    """Nodes of the rollout engine."""
    tensor_model_parallel_size: Count = 1
    """GPUs that share one copy of the model."""
    gpu_memory_utilization: Share = 0.7
    """The engine's share of a GPU's memory."""
    temperature: PositiveOrZero = 1.0
    """Sampling temperature; 0 is greedy."""
    top_p: Share = 0.95
    """Probability mass of the nucleus from which tokens are sampled."""
    # verl's
    top_k: TopK
    seed: Seed
    max_num_seqs: Count


class Machines(Section, at="trainer"):
    nnodes: Count
    n_gpus_per_node: Count


SAMPLING = (Prompts, Rollout, Machines)
PRESAMPLE = (Presample, Data, *SAMPLING)
