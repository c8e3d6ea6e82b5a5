"""Engine settings with which a run fits into memory: the defaults if they fit, else the nearest that do."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import product

from rl.checks.estimate import ACTOR, ROLLOUT, SDPA, Engine, Workload, engine_needs, problems
from rl.checks.gpus import GpuType
from rl.checks.model_shape import ModelShape
from rl.common.size import GB

_OFFLOADS = ("False", "True", "policy")
# vLLM's share, from the usual to the unusual.
_UTILIZATIONS = (0.7, 0.6, 0.5, 0.8, 0.85)
# Rows of the longest length that vLLM's cache should hold. With space for one vLLM starts, but generates one by one.
_ROWS_AT_ONCE = 8
_FEWEST_TOKENS = 4096
_MOST_GPUS = 64
OFFLOAD, UTILIZATION = "OFFLOAD", "GPU_MEMORY_UTILIZATION"
TENSOR_PARALLEL, MAX_TOKENS = "TENSOR_PARALLEL", "MAX_TOKENS_PER_GPU"
# What each variable of the scripts sets: an attribute of Engine, an override, and settings that follow from it.
_ATTRIBUTES = {
    OFFLOAD: "offload",
    UTILIZATION: "utilization",
    TENSOR_PARALLEL: "tensor_parallel",
    MAX_TOKENS: "max_tokens",
}
OVERRIDES = {
    OFFLOAD: "launch.offload",
    UTILIZATION: f"{ROLLOUT}.gpu_memory_utilization",
    TENSOR_PARALLEL: f"{ROLLOUT}.tensor_model_parallel_size",
    MAX_TOKENS: f"{ACTOR}.ppo_max_token_len_per_gpu",
}
DECIDED = {
    OFFLOAD: (
        f"{ACTOR}.fsdp_config.param_offload",
        f"{ACTOR}.fsdp_config.optimizer_offload",
        f"{ACTOR}.fsdp_config.offload_policy",
        "actor_rollout_ref.ref.fsdp_config.param_offload",
    ),
    MAX_TOKENS: (
        f"{ROLLOUT}.log_prob_max_token_len_per_gpu",
        "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu",
    ),
}


def variables(run: Workload) -> dict[str, str]:
    """A program's engine settings as the scripts' environment variables."""
    names = [UTILIZATION, TENSOR_PARALLEL] if run.kind == "presample" else list(_ATTRIBUTES)
    return {name: str(getattr(run.engine, _ATTRIBUTES[name])) for name in names}


def fitting(run: Workload, shape: ModelShape, gpu: GpuType, open_: Collection[str]) -> Workload | None:
    """The run with engine settings that fit; None if none fit.

    Args:
        run: has the defaults, which stay if they fit. With sdpa, whose time per token grows with MAX_TOKENS_PER_GPU,
            the smallest value of that variable is chosen if it is in `open_`.
        open_: the variables that may differ from the defaults.
    """
    for rows in (_ROWS_AT_ONCE, 1):
        for engine in _candidates(run, shape, open_):
            found = replace(run, engine=engine)
            share = engine.utilization * gpu.memory * GB
            if not problems(found, shape, gpu) and engine_needs(found, shape, rows) <= share:
                return found
    return None


def advice(run: Workload, shape: ModelShape, gpu: GpuType) -> str:
    """How to make a run fit: by one setting if that is enough, else by several, else by more GPUs."""
    before = variables(run)
    for choices in ([[name] for name in before], [list(before)]):
        found = [fitted for open_ in choices if (fitted := fitting(run, shape, gpu, open_))]
        if found:
            return "set " + " or ".join(" ".join(changes(run, fitted)) for fitted in found)
    gpus = run.gpus * 2
    while gpus <= _MOST_GPUS:
        if fitting(run.on_gpus(gpus), shape, gpu, before):
            return f"use {gpus} GPUs or more"
        gpus *= 2
    return "use a smaller model, GPUs with more memory, or a smaller MAX_PROMPT_LENGTH"


def changes(before: Workload, after: Workload) -> list[str]:
    """VARIABLE=VALUE for each variable that differs."""
    old = variables(before)
    return [f"{name}={value}" for name, value in variables(after).items() if value != old[name]]


def _candidates(run: Workload, shape: ModelShape, open_: Collection[str]) -> Iterator[Engine]:
    """The defaults first, then the others from the cheapest to the most expensive."""
    engine = run.engine
    offloads = [name for name in _OFFLOADS if name != "policy" or run.strategy == "fsdp2"]
    counts = _token_counts(run) if MAX_TOKENS in open_ else [engine.max_tokens]
    counts = counts[-1:] if run.attention == SDPA else counts
    yield replace(engine, max_tokens=counts[0])
    for values in product(
        offloads if OFFLOAD in open_ else [engine.offload],
        counts,
        _UTILIZATIONS if UTILIZATION in open_ else [engine.utilization],
        _replica_sizes(run, shape) if TENSOR_PARALLEL in open_ else [engine.tensor_parallel],
    ):
        offload, tokens, utilization, replica = values
        yield Engine(offload, utilization, replica, tokens)


def _token_counts(run: Workload) -> list[int]:
    """The default, halved as long as the longest row fits."""
    least = max(-(-run.longest_row // run.ulysses), min(_FEWEST_TOKENS, run.engine.max_tokens))
    counts = [max(run.engine.max_tokens, least)]
    while counts[-1] > least:
        counts.append(max(counts[-1] // 2, least))
    return counts


def _replica_sizes(run: Workload, shape: ModelShape) -> list[int]:
    """The default, then ascending: powers of two that divide a node's GPUs and the attention's heads."""
    sizes = [size for size in (1, 2, 4, 8) if run.gpus_per_node % size == 0 and shape.heads % size == 0]
    return sorted(sizes, key=lambda size: (size != run.engine.tensor_parallel, size))
