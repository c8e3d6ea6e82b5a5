"""The plan of a run: what each phase of a step holds on a GPU, whether that fits, and how long the phases take."""

from dataclasses import dataclass

from rl.planning import memory, step_time
from rl.planning.gpus import Gpu
from rl.planning.model_shape import ModelShape
from rl.planning.phases import GB, Phase, engine_share, host_memory, in_gb, phases
from rl.planning.run_settings import SDPA, RunSettings


@dataclass(frozen=True)
class Plan:
    """The plan of a run; memory in bytes, times in seconds.

    Attributes:
        phases: what computes and the rollout first, then the others.
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
    held = phases(run, shape, gpu)
    return Plan(
        run=run,
        shape=shape,
        gpu=gpu,
        phases=held,
        share=engine_share(run, shape, rows=1),
        seconds=_seconds(run, shape, gpu) if run.kind == "train" else {},
        host=host_memory(run, shape),
        notes=tuple(_notes(run, shape, gpu, held)),
    )


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


def _notes(run: RunSettings, shape: ModelShape, gpu: Gpu, held: tuple[Phase, ...]) -> list[str]:
    tokens, notes = run.engine.max_tokens, []
    if run.kind != "presample" and tokens * run.ulysses < run.longest_row:
        notes.append(
            f"MAX_TOKENS_PER_GPU={tokens} is less than the longest row, {run.longest_row} tokens: verl stops at a row "
            f"that is longer than a micro-batch."
        )
    for phase in held:
        eager = phase.total + memory.eager_entropy(shape, tokens)
        if phase.name == "old log-probs" and eager > gpu.memory * GB:
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
