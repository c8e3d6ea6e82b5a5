"""What a GPU holds at the worst moment of each phase of a run, and what the engine and the host hold."""

from dataclasses import dataclass, replace

from rl.planning import memory
from rl.planning.gpus import Gpu
from rl.planning.model_shape import ModelShape
from rl.planning.run_settings import FLASH, SDPA, RunSettings

GB = 1e9
# Names of a phase's parts, in the order in which they are shown.
PARTS = (
    *("parameters", "gradients", "Adam's moments", "layer inputs", "activations of a layer", "logits"),
    *("one pass over logits", "dense mask", "FSDP in flight"),
    *("vLLM's share", "vLLM's weights", "weights in transfer", "contexts"),
)


@dataclass(frozen=True)
class Phase:
    """What a GPU holds at the worst moment of a phase.

    Attributes:
        name: "update", "rollout", ...
        parts: bytes by name.
        beside: bytes of other processes and of contexts that parts leaves out.
    """

    name: str
    parts: dict[str, float]
    beside: float

    @property
    def peak(self) -> float:
        return sum(self.parts.values())

    @property
    def total(self) -> float:
        return self.peak + self.beside


def phases(run: RunSettings, shape: ModelShape, gpu: Gpu) -> tuple[Phase, ...]:
    """Of the run's program: what computes (the update, or the store's log-probs) and the rollout first."""
    if run.kind == "presample":
        return (Phase("rollout", {"vLLM's share": run.engine.utilization * gpu.memory * GB}, 0.0),)
    training = run.kind == "train"
    rollout = _rollout_phase(run, shape, gpu, adam=training)
    log_probs = _log_prob_phase(run, shape, adam=training)
    if not training:
        return log_probs, rollout, _loading_phase(run, shape)
    return _update_phase(run, shape), rollout, log_probs, _transfer_phase(run, shape), _loading_phase(run, shape)


def engine_share(run: RunSettings, shape: ModelShape, *, rows: int) -> dict[str, float]:
    """What vLLM needs to run at all, with a cache for this many rows of the longest length."""
    replica = run.engine.tensor_parallel
    return {
        "weights": memory.engine_weights(shape, replica),
        "workspace": memory.VLLM_WORKSPACE,
        "cache": memory.kv_cache(shape, rows * run.longest_row, replica),
    }


def _state(run: RunSettings, shape: ModelShape, *, adam: bool, engine_runs: bool) -> dict[str, float]:
    """What of the parameters and of Adam is on the GPU, while the trainer computes or while vLLM does."""
    offload = run.engine.offload
    if offload == "policy" or (offload == "True" and engine_runs):
        return {}
    state = {"parameters": memory.parameter_shard(shape.parameters, run.shard_gpus, run.number)}
    if adam and offload != "True":
        state["Adam's moments"] = memory.adam_shard(shape.parameters, run.shard_gpus, run.number)
    return state


def _update_moments(run: RunSettings, shape: ModelShape) -> list[dict[str, float]]:
    """The parts at the output layer, in the recomputation of a layer, and at the end of the backward pass."""
    tokens = run.engine.max_tokens
    state: dict[str, float] = {}
    if run.engine.offload != "policy":
        shard = memory.parameter_shard(shape.parameters, run.shard_gpus, run.number)
        moments = memory.adam_shard(shape.parameters, run.shard_gpus, run.number)
        state = {"parameters": shard, "gradients": shard, "Adam's moments": moments}
    kept: dict[str, float] = {"layer inputs": memory.layer_inputs(shape, tokens)}
    if run.attention == SDPA:
        kept["dense mask"] = memory.dense_mask(tokens)
    kept["FSDP in flight"] = memory.in_flight(shape)
    logits = {"logits": memory.logits(shape, tokens), "one pass over logits": memory.ONE_PASS}
    return [
        state | kept | logits,
        state | kept | {"activations of a layer": memory.layer_activations(shape, tokens)},
        state | {"FSDP in flight": memory.end_of_backward(shape)},
    ]


def _update_phase(run: RunSettings, shape: ModelShape) -> Phase:
    worst = max(_update_moments(run, shape), key=lambda parts: sum(parts.values()))
    return Phase("update", worst, memory.CONTEXTS + memory.ASLEEP)


def _log_prob_phase(run: RunSettings, shape: ModelShape, *, adam: bool) -> Phase:
    tokens = run.engine.max_tokens
    parts = _state(run, shape, adam=adam, engine_runs=False) | {
        "logits": memory.logits(shape, tokens),
        "one pass over logits": memory.ONE_PASS,
        "FSDP in flight": memory.gathered(shape),
    }
    if run.attention == SDPA:
        parts["dense mask"] = memory.dense_mask(tokens)
    name = "old log-probs" if run.kind == "train" else "reference log-probs"
    return Phase(name, parts, memory.CONTEXTS + memory.ASLEEP)


def _rollout_phase(run: RunSettings, shape: ModelShape, gpu: Gpu, *, adam: bool) -> Phase:
    parts = {"vLLM's share": run.engine.utilization * gpu.memory * GB}
    parts |= _state(run, shape, adam=adam, engine_runs=True)
    return Phase("rollout", parts | {"weights in transfer": run.bucket, "contexts": memory.CONTEXTS}, 0.0)


def _transfer_phase(run: RunSettings, shape: ModelShape) -> Phase:
    parts = _state(run, shape, adam=True, engine_runs=True)
    parts["vLLM's weights"] = memory.engine_weights(shape, run.engine.tensor_parallel)
    parts["weights in transfer"] = run.bucket + memory.largest_weight(shape, run.number)
    return Phase("weight transfer", parts, memory.CONTEXTS + memory.ASLEEP)


def _loading_phase(run: RunSettings, shape: ModelShape) -> Phase:
    """verl loads the shards onto the GPU whatever is offloaded later, one broadcast weight at a time."""
    shard = memory.parameter_shard(shape.parameters, run.shard_gpus, run.number)
    weight = memory.largest_weight(shape, run.number)
    return Phase("loading", {"parameters": shard, "weights in transfer": weight}, memory.CONTEXTS)


def update_peaks(run: RunSettings, shape: ModelShape) -> dict[str, tuple[float, float]]:
    """Least and largest estimate of the update's peak, in bytes, by attention and by how log-probs are computed."""
    with_flash, with_sdpa = (replace(run, attention=attention) for attention in (FLASH, SDPA))
    flash, sdpa = (_update_phase(each, shape).peak for each in (with_flash, with_sdpa))
    # verl's, without flash-attn's cross-entropy: log-softmax and the gradient are tensors of their own.
    tokens = run.engine.max_tokens
    at_head, *later = (sum(parts.values()) for parts in _update_moments(with_flash, shape))
    softmax = at_head - memory.ONE_PASS + memory.float_log_softmax(shape, tokens)
    # When the logits get theirs, no parameter has its gradient yet.
    gradient = memory.logits(shape, tokens) + memory.gathered(shape) - memory.in_flight(shape)
    least = max(softmax, *later)
    most = max(least, softmax + gradient + memory.dense_mask(tokens))
    return {FLASH: (flash, flash), SDPA: (sdpa, sdpa), "sdpa and verl's own log-probs": (least, most)}


def host_memory(run: RunSettings, shape: ModelShape) -> dict[str, float]:
    """Bytes of main memory on a node by what holds them."""
    if run.kind == "presample":
        return {}
    shard = memory.parameter_shard(shape.parameters, run.shard_gpus, run.number) * run.gpus_per_node
    readers = run.gpus_per_node if shape.tied else 1
    found: dict[str, float] = {"model while it is loaded": readers * run.number * shape.parameters}
    if run.engine.offload != "False":
        found["offloaded"] = shard * {"True": 3, "policy": 4}[run.engine.offload]
    if run.reference:
        found["reference model"] = shard
    return found


def in_gb(number: float) -> str:
    """GB in words: two digits at least."""
    return f"{number / GB:.1f}" if number < 10 * GB else f"{number / GB:.0f}"
