"""The plan of a run: what each phase of a step holds on a GPU, whether that fits, and how long the phases take."""

from dataclasses import dataclass, replace

from rl.planning import memory, step_time
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


@dataclass(frozen=True)
class Plan:
    """The plan of a run; memory in bytes, times in seconds.

    Attributes:
        phases: what computes (the update, or the store's log-probs) and the rollout first, then the others.
        share: what vLLM needs of its share, by part.
        seconds: of a training step by phase; empty where the GPU's speed is unknown, and for other programs.
        host: bytes of main memory on a node by what holds them.
        notes: sentences on what the table does not show.
    """

    run: RunSettings
    shape: ModelShape
    gpu: Gpu
    phases: tuple[Phase, ...]
    share: dict[str, float]
    seconds: dict[str, float]
    host: dict[str, float]
    notes: tuple[str, ...]

    @property
    def step_seconds(self) -> float | None:
        return sum(self.seconds.values()) if self.seconds else None

    @property
    def share_given(self) -> float:
        return self.run.engine.utilization * self.gpu.memory * GB

    def problems(self) -> list[str]:
        """What does not fit, each as a clause."""
        capacity, found = self.gpu.memory * GB, []
        for phase in self.phases:
            if phase.total > capacity:
                # Adam's moments are there from the first update on.
                name = "second rollout" if "Adam's moments" in phase.parts and phase.name == "rollout" else phase.name
                found.append(f"the {name} needs {in_gb(phase.total)} of {self.gpu.memory:g} GB")
        if (needed := sum(self.share.values())) > self.share_given:
            found.append(
                f"vLLM needs {in_gb(needed)} GB and its share is {in_gb(self.share_given)} of {self.gpu.memory:g} GB"
            )
        replica = self.run.engine.tensor_parallel
        for number, what in ((self.run.gpus, "GPUs"), (self.shape.heads, "attention heads")):
            if number % replica:
                found.append(f"TENSOR_PARALLEL={replica} does not divide the {number} {what}")
        return found


def make_plan(run: RunSettings, shape: ModelShape, gpu: Gpu) -> Plan:
    """Plan a run; the formulas are those of memory.py and step_time.py."""
    phases = {"train": _training_phases, "store": _store_phases, "presample": _presample_phases}[run.kind]
    return Plan(
        run=run,
        shape=shape,
        gpu=gpu,
        phases=phases(run, shape, gpu),
        share=engine_share(run, shape, rows=1),
        seconds=_seconds(run, shape, gpu) if run.kind == "train" else {},
        host=_host(run, shape),
        notes=tuple(_notes(run, shape, gpu)),
    )


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
    tokens, policy = run.engine.max_tokens, run.engine.offload == "policy"
    state: dict[str, float] = {}
    if not policy:
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


def _log_prob_phase(name: str, run: RunSettings, shape: ModelShape, *, adam: bool) -> Phase:
    tokens = run.engine.max_tokens
    parts = _state(run, shape, adam=adam, engine_runs=False) | {
        "logits": memory.logits(shape, tokens),
        "one pass over logits": memory.ONE_PASS,
        "FSDP in flight": memory.gathered(shape),
    }
    if run.attention == SDPA:
        parts["dense mask"] = memory.dense_mask(tokens)
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


def _training_phases(run: RunSettings, shape: ModelShape, gpu: Gpu) -> tuple[Phase, ...]:
    return (
        _update_phase(run, shape),
        _rollout_phase(run, shape, gpu, adam=True),
        _log_prob_phase("old log-probs", run, shape, adam=True),
        _transfer_phase(run, shape),
        _loading_phase(run, shape),
    )


def _store_phases(run: RunSettings, shape: ModelShape, gpu: Gpu) -> tuple[Phase, ...]:
    log_probs = _log_prob_phase("reference log-probs", run, shape, adam=False)
    return log_probs, _rollout_phase(run, shape, gpu, adam=False), _loading_phase(run, shape)


def _presample_phases(run: RunSettings, shape: ModelShape, gpu: Gpu) -> tuple[Phase, ...]:
    return (Phase("rollout", {"vLLM's share": run.engine.utilization * gpu.memory * GB}, 0.0),)


def _seconds(run: RunSettings, shape: ModelShape, gpu: Gpu) -> dict[str, float]:
    if gpu.tflops is None or gpu.bandwidth is None:
        return {}
    flops, n = gpu.tflops * 1e12, shape.parameters
    row, response = step_time.row_tokens(run.max_prompt, run.max_response)
    policy_tokens = run.prompts * run.samples * row / run.gpus
    tokens = policy_tokens + run.pef_rows * row / run.gpus

    def masked(tokens: float, passes: int) -> float:
        if run.attention != SDPA:
            return 0.0
        per_batch = step_time.masked_attention_seconds(shape, run.engine.max_tokens, passes, flops)
        return tokens / run.engine.max_tokens * per_batch

    log_probs = step_time.log_prob_flop(n, policy_tokens) / flops + masked(policy_tokens, 1)
    seconds = {
        "rollout": step_time.rollout_seconds(
            shape,
            prompts=run.prompts,
            samples=run.samples,
            prompt_tokens=row - response,
            response_tokens=response,
            longest=min(run.max_response, step_time.LONGEST_OF_MEAN * response),
            gpus=run.gpus,
            tensor_parallel=run.engine.tensor_parallel,
            flops=flops,
            bandwidth=gpu.bandwidth * 1e12,
        ),
        "old log-probs": log_probs,
        "update": step_time.micro_batch_flop(n, tokens) / flops + masked(tokens, 4),
        "weight transfer": step_time.transfer_seconds(n),
    }
    if run.reference:
        seconds["reference log-probs"] = log_probs
    if run.engine.offload != "False":
        seconds["offload"] = _offload_seconds(run, n, tokens / run.engine.max_tokens)
    return seconds


def _offload_seconds(run: RunSettings, parameters: int, micro_batches: float) -> float:
    shard = memory.parameter_shard(parameters, run.shard_gpus, run.number)
    if run.engine.offload == "True":
        # Parameters for log-probs and for the update, the moments for the update; each there and back.
        return step_time.swap_seconds(2 * (2 * shard + 2 * shard))
    # Every micro-batch fetches the parameters forward and backward, and sends its gradients.
    fetched = step_time.swap_seconds(3 * shard) * micro_batches
    return fetched + step_time.host_adam_seconds(parameters, run.shard_gpus, run.mini_batches)


def _host(run: RunSettings, shape: ModelShape) -> dict[str, float]:
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


def _notes(run: RunSettings, shape: ModelShape, gpu: Gpu) -> list[str]:
    tokens, notes = run.engine.max_tokens, []
    if run.kind != "presample" and tokens * run.ulysses < run.longest_row:
        notes.append(
            f"MAX_TOKENS_PER_GPU={tokens} is less than the longest row, {run.longest_row} tokens: verl stops at a row "
            f"that is longer than a micro-batch."
        )
    if run.kind == "train":
        phase = _log_prob_phase("", run, shape, adam=True)
        eager = phase.total + memory.eager_entropy(shape, tokens)
        if eager > gpu.memory * GB:
            notes.append(f"Old log-probs need {in_gb(eager)} GB if torch.compile cannot fuse the entropy.")
    if run.attention == SDPA and run.kind != "presample":
        longest = run.longest_row // run.ulysses
        smaller = f", MAX_TOKENS_PER_GPU={longest} a part of it" if longest < tokens else ""
        notes.append(
            f"sdpa attends over the whole square of a packed micro-batch, {tokens} x {tokens} tokens: flash attention "
            f"saves that time{smaller}."
        )
    if run.top_k:
        per_token = memory.top_k_bytes_per_token(run.top_k)
        text = f"Top-{run.top_k} distributions: {per_token} bytes a response token, at most "
        text += f"{memory.top_k_bytes(run.top_k, 1, run.max_response) / 1e6:.1f} MB a row"
        if run.pef_rows:
            text += f", {memory.top_k_bytes(run.top_k, run.pef_rows, run.max_response) / GB:.2f} GB a step"
        notes.append(text + ".")
    if run.dynamic_sampling:
        notes.append("Dynamic sampling repeats the rollout until the batch is full: its time is the least.")
    return notes


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
    most = max(softmax + gradient, *later) + memory.dense_mask(tokens)
    return {FLASH: (flash, flash), SDPA: (sdpa, sdpa), "sdpa and verl's own log-probs": (least, most)}


def in_gb(number: float) -> str:
    """GB in words: two digits at least."""
    return f"{number / GB:.1f}" if number < 10 * GB else f"{number / GB:.0f}"
