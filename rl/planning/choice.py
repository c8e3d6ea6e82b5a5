"""The engine settings with which a run fits: the defaults if they do, else the nearest that do."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import product

from rl.planning.gpus import Gpu
from rl.planning.model_shape import ModelShape
from rl.planning.phases import engine_share
from rl.planning.plan import Plan, make_plan
from rl.planning.run_settings import OFFLOADS, SDPA, Engine, RunSettings

# vLLM's share, from the usual to the unusual.
_UTILIZATIONS = (0.7, 0.6, 0.5, 0.8, 0.85)
# Rows of the longest length that vLLM's cache should hold; it starts with one, but would then take them one by one.
_ROWS_AT_ONCE = 8
_FEWEST_TOKENS = 4096
_MOST_GPUS = 64


def fitting_engine(run: RunSettings, shape: ModelShape, gpu: Gpu, open_: Collection[str]) -> Engine | None:
    """Engine settings with which the run fits.

    Args:
        run: with the defaults, which are taken if they fit; for sdpa with the least MAX_TOKENS_PER_GPU if that is
            open, because its time per token grows with it.
        open_: the settings that may differ from them, by name, such as "OFFLOAD".

    Returns:
        None if no values of the open settings fit.
    """
    for rows in (_ROWS_AT_ONCE, 1):
        for engine in _candidates(run, shape, open_):
            changed = replace(run, engine=engine)
            plan = make_plan(changed, shape, gpu)
            if not plan.problems() and sum(engine_share(changed, shape, rows=rows).values()) <= plan.share_given:
                return engine
    return None


def advice(run: RunSettings, shape: ModelShape, gpu: Gpu) -> str:
    """What to set so that a run that does not fit does: one setting if one is enough, else several, else more GPUs."""
    names = run.chosen_from
    found = [fitting_engine(run, shape, gpu, [name]) for name in names]
    singles = [_changes(run.engine, engine) for engine in found if engine]
    if singles:
        return "set " + " or ".join(singles)
    if engine := fitting_engine(run, shape, gpu, names):
        return "set " + _changes(run.engine, engine)
    gpus = run.gpus * 2
    while gpus <= _MOST_GPUS:
        if fitting_engine(run.on_gpus(gpus), shape, gpu, names):
            return f"use {gpus} GPUs or more"
        gpus *= 2
    return "use a smaller model, GPUs with more memory, or a smaller MAX_PROMPT_LENGTH"


def _changes(before: Engine, after: Engine) -> str:
    old, new = before.settings(), after.settings()
    return " ".join(f"{name}={new[name]}" for name in old if old[name] != new[name])


def _candidates(run: RunSettings, shape: ModelShape, open_: Collection[str]) -> Iterator[Engine]:
    """The defaults first, then the others from the cheapest to the dearest."""
    engine = run.engine
    offloads = [offload for offload in OFFLOADS if offload != "policy" or run.strategy == "fsdp2"]
    offloads = offloads if "OFFLOAD" in open_ else [engine.offload]
    counts = _token_counts(run) if "MAX_TOKENS_PER_GPU" in open_ else [engine.max_tokens]
    counts = counts[-1:] if run.attention == SDPA else counts
    shares = _UTILIZATIONS if "GPU_MEMORY_UTILIZATION" in open_ else [engine.utilization]
    replicas = _replica_sizes(run, shape) if "TENSOR_PARALLEL" in open_ else [engine.tensor_parallel]
    yield replace(engine, max_tokens=counts[0])
    for offload, tokens, share, replica in product(offloads, counts, shares, replicas):
        yield Engine(offload, share, replica, tokens)


def _token_counts(run: RunSettings) -> list[int]:
    """The default, and half of it again and again as long as the longest row fits."""
    least = max(-(-run.longest_row // run.ulysses), min(_FEWEST_TOKENS, run.engine.max_tokens))
    counts = [run.engine.max_tokens]
    while counts[-1] > least:
        counts.append(max(counts[-1] // 2, least))
    return counts


def _replica_sizes(run: RunSettings, shape: ModelShape) -> list[int]:
    """The default, then ascending: within a node, of a size that divides the GPUs and the attention's heads."""
    sizes = [2**power for power in range(7) if 2**power <= run.gpus_per_node]
    valid = [size for size in sizes if run.gpus_per_node % size == 0 and shape.heads % size == 0]
    return sorted(valid, key=lambda size: (size != run.engine.tensor_parallel, size))


def planned(run: RunSettings, shape: ModelShape, gpu: Gpu, open_: Collection[str]) -> Plan:
    """The plan of a run whose open settings are chosen so that it fits; with the defaults if nothing does."""
    engine = fitting_engine(run, shape, gpu, open_) if open_ else None
    return make_plan(replace(run, engine=engine or run.engine), shape, gpu)
