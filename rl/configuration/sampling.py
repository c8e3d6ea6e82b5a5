"""Prompts and rollout engine of pre-sampling and evaluation, the programs that sample without a trainer."""

from typing import Any

from rl.configuration.setting import Count, CountOrZero, PositiveOrZero, Section, Seed, Share, TopK

_NODES: Any = "${trainer.nnodes}"


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
