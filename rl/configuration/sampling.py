"""Prompts and rollout engine of the programs that sample without a trainer: pre-sampling and evaluation."""

from typing import Annotated, Literal

from pydantic import Field

from rl.configuration.setting import Count, CountOrZero, PositiveOrZero, Setting, Share

_ROLLOUT = "actor_rollout_ref.rollout"

SAMPLING = (
    Setting(
        "data.filter_overlong_prompts",
        bool,
        False,
        "A prompt longer than data.max_prompt_length is an error; true leaves such prompts out and counts them.",
    ),
    Setting(
        f"{_ROLLOUT}.load_format",
        str,
        "auto",
        "Read the weights from the model's folder: verl expects an actor to send them.",
    ),
    Setting(f"{_ROLLOUT}.nnodes", CountOrZero, "${trainer.nnodes}", "Nodes of the rollout engine."),
    Setting(f"{_ROLLOUT}.tensor_model_parallel_size", Count, 1, "GPUs that share one copy of the model."),
    Setting(f"{_ROLLOUT}.temperature", PositiveOrZero, 1.0, "Sampling temperature; 0 is greedy."),
    Setting(f"{_ROLLOUT}.top_p", Share, 0.95, "Probability mass of the nucleus that is sampled from."),
    # verl's
    Setting(
        f"{_ROLLOUT}.top_k", Annotated[Literal[-1] | Annotated[int, Field(ge=1)], "a number of tokens, or -1 for all"]
    ),
    Setting(f"{_ROLLOUT}.seed", CountOrZero),
    Setting(f"{_ROLLOUT}.max_num_seqs", Count),
    Setting("trainer.nnodes", Count),
    Setting("trainer.n_gpus_per_node", Count),
    Setting("data.max_prompt_length", Count),
    Setting("data.max_response_length", Count),
)
