"""Estimates of the memory of a GPU and of the time of a step, from verl's code. None was measured.

Symbols in the formulas: N parameters of the model, N_l of one of its L layers; V vocabulary, d hidden size; a, k and m
the widths of the queries, the keys and the MLP; T tokens of a micro-batch on a GPU; G GPUs; R of them share the
parameters and P hold one replica of vLLM; b bytes of a parameter; F FLOP/s of training, B bytes/s of a GPU's memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from shutil import which
from typing import Any

from rl.checks.gpus import GpuType
from rl.checks.model_shape import ModelShape
from rl.common.errors import UserError
from rl.common.size import GB, in_gb
from rl.configuration import ACTOR, micro_batch_tokens, ulysses_ranks
from rl.configuration.names import PRESAMPLE

# CUDA's contexts and NCCL's buffers; what vLLM keeps while it sleeps; its activations and graphs.
CONTEXTS, ASLEEP, WORKSPACE = 2.0e9, 2.5e9, 2.5e9
# The logits are converted to float32 in parts of 64 MiB, with four buffers (verl/dph/divergence/topk_logprobs.py).
ONE_PASS = 4 * 4 * (1 << 24)
# Assumed, because lengths are not known before a run: tokens of a row, of its response, and the longest response over
# the mean.
ROW_TOKENS, RESPONSE_TOKENS, LONGEST_OF_MEAN = 3300, 512, 4
# With a dense mask sdpa reaches this share of F.
MASKED = 1 / 3.5

ROLLOUT = "actor_rollout_ref.rollout"
_FSDP = f"{ACTOR}.fsdp_config"
FLASH, SDPA = "flash attention", "sdpa"


@dataclass(frozen=True)
class Engine:
    """The settings that decide whether a run fits.

    Attributes:
        offload: "False"; "True": parameters and Adam's moments are in main memory while vLLM runs; "policy": they stay
            there, FSDP2 fetches them layer by layer, and Adam runs on the CPU.
        utilization: vLLM's share of a GPU's memory.
        tensor_parallel: GPUs of one vLLM replica, P.
        max_tokens: tokens of a micro-batch on a GPU, T.
    """

    offload: str
    utilization: float
    tensor_parallel: int
    max_tokens: int


@dataclass(frozen=True)
class Workload:
    """What a step of a run computes.

    Attributes:
        kind: "train", "store" or "presample".
        shard_gpus: GPUs that share the parameters, R.
        prompts, samples, pef_rows: prompts of a step, samples of each, D_pef rows of a step.
        reference: a reference model computes log-probs in each step.
        epochs: updates with each mini-batch of a step.
        scaled: the rollout's temperature is not 1, so that the logits are divided by it.
        entropy: the entropy is computed in the update.
        number: bytes of a parameter, b.
        bucket: bytes of the buffer in which weights go to vLLM.
        attention: the trainer's, FLASH or SDPA.
        ulysses: GPUs that share a micro-batch's rows.
    """

    kind: str
    model: str
    nodes: int
    gpus_per_node: int
    shard_gpus: int
    max_prompt: int
    max_response: int
    prompts: int
    samples: int
    pef_rows: int
    reference: bool
    epochs: int
    scaled: bool
    entropy: bool
    strategy: str
    number: int
    bucket: int
    attention: str
    ulysses: int
    engine: Engine

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node

    @property
    def longest_row(self) -> int:
        return self.max_prompt + self.max_response

    @property
    def row_tokens(self) -> tuple[int, int]:
        """Assumed mean tokens of a row, prompt and response together, and of its response."""
        row = min(ROW_TOKENS, self.longest_row // 4)
        return row, min(RESPONSE_TOKENS, row // 2)

    def on_gpus(self, gpus: int) -> "Workload":
        """The same run on another number of GPUs, in nodes of 8 where 8 divides it."""
        per_node = gpus if gpus <= 8 else 8 if gpus % 8 == 0 else self.gpus_per_node
        shard = gpus if self.shard_gpus == self.gpus else self.shard_gpus
        return replace(self, nodes=gpus // per_node, gpus_per_node=per_node, shard_gpus=shard)


# For each key: the values for which the formulas hold, and what another value means.
_MODELLED: dict[str, tuple[tuple, str]] = {
    "actor_rollout_ref.model.lora_rank": ((0,), "LoRA"),
    "actor_rollout_ref.model.enable_gradient_checkpointing": ((True,), "training without gradient checkpointing"),
    "actor_rollout_ref.model.use_remove_padding": ((True,), "padding rows instead of packing them"),
    "actor_rollout_ref.model.use_fused_kernels": ((False,), "verl's fused log-probs"),
    f"{ACTOR}.use_dynamic_bsz": ((True,), "micro-batches of a fixed number of rows"),
    f"{_FSDP}.use_no_sync_for_gradient_accumulation": ((False,), "whole gradients on every GPU"),
    f"{ACTOR}.strategy": (("fsdp", "fsdp2"), "a strategy other than FSDP"),
    f"{ACTOR}.optim.optimizer": (("AdamW",), "an optimizer other than AdamW"),
    f"{ROLLOUT}.name": (("vllm",), "a rollout other than vLLM"),
    f"{ROLLOUT}.free_cache_engine": ((True,), "a vLLM that stays awake"),
    "trainer.v1.trainer_mode": (("sync", "colocate_async"), "a rollout on GPUs of its own"),
}


def reject_unmodelled(values: Mapping[str, Any], modelled: Mapping[str, tuple[tuple, str]]) -> None:
    """Reject settings for which the formulas do not hold.

    Args:
        values: every setting by its full name.
        modelled: by setting, the values for which they hold, and what another value would be.

    Raises:
        UserError: naming one.
    """
    for key, (allowed, what) in modelled.items():
        if key in values and values[key] not in allowed:
            raise UserError(f"{what} ({key}={values[key]}) is not modelled.")
    if values["algorithm.adv_estimator"] == "gae":
        raise UserError("a critic (algorithm.adv_estimator=gae) is not modelled.")


def workload(program: str, values: Mapping[str, Any]) -> Workload:
    """Read a program's configuration.

    Args:
        program: the module, such as "verl.dph.main".
        values: every setting by its full name, checked (rl/checks/run.py).

    Raises:
        UserError: the formulas do not hold for the value of a setting.
    """
    reject_unmodelled(values, _MODELLED)
    offloads = {values[f"{ACTOR}.fsdp_config.{part}_offload"] for part in ("param", "optimizer")}
    strategy = values[f"{ACTOR}.strategy"]
    if values[f"{ACTOR}.fsdp_config.offload_policy"] and strategy != "fsdp2":
        setting = "fsdp_config.offload_policy=True (OFFLOAD=policy)"
        raise UserError(f"{setting} does nothing with strategy={strategy}: use fsdp2 (STRATEGY), or OFFLOAD=True.")
    if len(offloads) == 2:
        raise UserError("offloading only the parameters or only Adam's moments is not modelled.")
    kind = "presample" if program == PRESAMPLE else "store" if values[f"{ACTOR}.generate_sft"] else "train"
    rehearses = kind == "train" and values["data.sft_pt"] not in (None, "None")
    attention = _attention(values.get("actor_rollout_ref.model.override_config.attn_implementation", ""))
    longest = values["data.max_prompt_length"] + values["data.max_response_length"]
    open_tokens = micro_batch_tokens(longest, attention == SDPA)
    nodes, per_node = values["trainer.nnodes"], values["trainer.n_gpus_per_node"]
    shard = values[f"{ACTOR}.fsdp_config.fsdp_size"]
    return Workload(
        kind=kind,
        model=values["actor_rollout_ref.model.path"],
        nodes=nodes,
        gpus_per_node=per_node,
        shard_gpus=shard if 0 < shard < nodes * per_node else nodes * per_node,
        max_prompt=values["data.max_prompt_length"],
        max_response=values["data.max_response_length"],
        prompts=values["data.train_batch_size"],
        samples=values[f"{ROLLOUT}.n"],
        pef_rows=values["data.sft_batch_size"] if rehearses else 0,
        reference=has_reference(values),
        epochs=values[f"{ACTOR}.ppo_epochs"],
        scaled=values[f"{ROLLOUT}.temperature"] != 1,
        entropy=values[f"{ACTOR}.calculate_entropy"] or values[f"{ACTOR}.entropy_coeff"] != 0,
        strategy=strategy,
        number=number_bytes(values[f"{ACTOR}.fsdp_config.model_dtype"]),
        bucket=values[f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes"] << 20,
        attention=attention,
        ulysses=ulysses_ranks(*(values[f"{section}.ulysses_sequence_parallel_size"] for section in (ACTOR, _FSDP))),
        engine=Engine(
            offload="policy" if values[f"{ACTOR}.fsdp_config.offload_policy"] else str(offloads.pop()),
            utilization=values[f"{ROLLOUT}.gpu_memory_utilization"],
            tensor_parallel=values[f"{ROLLOUT}.tensor_model_parallel_size"],
            max_tokens=values[f"{ACTOR}.ppo_max_token_len_per_gpu"] or open_tokens,
        ),
    )


def has_reference(values: Mapping[str, Any]) -> bool:
    """Whether training loads a reference model (verl/trainer/ppo/utils.py, need_reference_policy)."""
    return values[f"{ACTOR}.use_kl_loss"] or values["algorithm.use_kl_in_reward"]


def number_bytes(dtype: str | None) -> int:
    """Bytes of a number, by verl's or torch's name of the type; None is bfloat16."""
    return 4 if dtype in ("fp32", "float32") else 2


def _attention(implementation: str) -> str:
    """FLASH or SDPA for transformers' name. For "", FLASH if it can be imported here or there is no GPU here."""
    if implementation not in ("", SDPA) and "flash" not in implementation:
        raise UserError(f"attn_implementation={implementation} is not modelled, only flash attention and sdpa.")
    has_flash = not which("nvidia-smi") or find_spec("flash_attn") or find_spec("kernels")
    return FLASH if "flash" in implementation or (has_flash and not implementation) else SDPA


# ------------------------------------------------------------------------------------------------------------- memory

Parts = dict[str, float]


def phases(run: Workload, shape: ModelShape, gpu: GpuType) -> dict[str, Parts]:
    """Bytes that a GPU holds at the worst moment of each phase, by part."""
    share = {"vLLM's share": run.engine.utilization * gpu.memory * GB}
    if run.kind == "presample":
        return {"rollout": share}
    computes = {"update": _update(run, shape)} if run.kind == "train" else {"log-probs": _log_probs(run, shape)}
    held = _state(run, shape) if run.engine.offload == "False" else {}
    rollout = share | held | {"weights in transfer": run.bucket, "contexts": CONTEXTS}
    # verl loads the shards onto the GPU whatever is offloaded later, weight by weight; the embedding is the largest.
    largest = run.number * shape.embedding_parameters
    loading = {"parameters": _shard(run, shape), "weights in transfer": largest, "contexts": CONTEXTS}
    return computes | {"rollout": rollout, "loading": loading}


def _shard(run: Workload, shape: ModelShape) -> float:
    """b N / R."""
    return run.number * shape.parameters / run.shard_gpus


def _state(run: Workload, shape: ModelShape) -> Parts:
    """b N / R, and 2 b N / R of Adam."""
    shard = _shard(run, shape)
    return {"parameters": shard} | ({"Adam's moments": 2 * shard} if run.kind == "train" else {})


def _update(run: Workload, shape: ModelShape) -> Parts:
    """The state and its gradients; what gradient checkpointing keeps, 2 T d L; and the larger of two moments: the
    output layer (`_logits`), and the activations of the layer that is recomputed, T (16 d + 4 a + 4 k + 12 m)."""
    tokens, offload = run.engine.max_tokens, run.engine.offload
    state = {} if offload == "policy" else _state(run, shape) | {"gradients": _shard(run, shape)}
    width = 16 * shape.hidden + 4 * shape.attention_width + 4 * shape.kv_width + 12 * shape.intermediate
    kept: Parts = {"layer inputs": 2 * tokens * shape.hidden * shape.layers}
    moments: list[Parts] = [_logits(run, shape), {"activations of a layer": tokens * width}]
    return state | kept | max(moments, key=lambda parts: sum(parts.values())) | _beside(run, shape)


def _log_probs(run: Workload, shape: ModelShape) -> Parts:
    state = {} if run.engine.offload == "policy" else _state(run, shape)
    return state | _logits(run, shape) | _beside(run, shape)


def _logits(run: Workload, shape: ModelShape) -> Parts:
    """2 T V for the logits in bf16, which their gradient overwrites, and the buffers of one pass over them. 2 T V more
    for logits that are divided by the temperature, and twice that for an entropy in the update: then the gradient
    overwrites nothing, and the entropy has its own."""
    copies = 1 + run.scaled + 2 * (run.entropy and run.kind == "train")
    return {"logits": copies * 2 * run.engine.max_tokens * shape.vocabulary + ONE_PASS}


def _beside(run: Workload, shape: ModelShape) -> Parts:
    """3 T^2 for sdpa's mask, as booleans and in bf16, and what FSDP gathers."""
    mask: Parts = {"dense mask": 3 * run.engine.max_tokens**2} if run.attention == SDPA else {}
    return mask | fsdp_in_flight(shape) | {"contexts": CONTEXTS + ASLEEP}


def fsdp_in_flight(shape: ModelShape) -> Parts:
    """4 V d + 10 N_l: in bf16 the output layer, a layer, the next layer and the gradients of the first two, and in
    float32 the layer's gradient."""
    return {"FSDP in flight": 4 * shape.embedding_parameters + 10 * shape.layer_parameters}


def engine_needs(run: Workload, shape: ModelShape, rows: int = 1) -> float:
    """Bytes that vLLM needs: weights 2 N / P, workspace, and a cache of 4 L k / P per token, for `rows` rows of the
    longest length. vLLM splits the cache by heads of the keys, and copies it to the other GPUs of a replica."""
    cache = 4 * shape.layers * shape.kv_width * rows * run.longest_row
    parallel = run.engine.tensor_parallel
    return 2 * shape.parameters / parallel + cache / min(parallel, shape.kv_heads) + WORKSPACE


def problems(run: Workload, shape: ModelShape, gpu: GpuType) -> list[str]:
    """What does not fit, each as a clause."""
    found = []
    for name, parts in phases(run, shape, gpu).items():
        if (total := sum(parts.values())) > gpu.memory * GB:
            # Adam's moments are there from the first update on.
            named = "second rollout" if name == "rollout" and "Adam's moments" in parts else name
            found.append(f"the {named} needs {in_gb(total)} of {gpu.memory:g} GB")
    share, needed = run.engine.utilization * gpu.memory * GB, engine_needs(run, shape)
    if needed > share:
        found.append(f"vLLM needs {in_gb(needed)} GB and its share is {in_gb(share)} of {gpu.memory:g} GB")
    for number, what in ((run.gpus, "GPUs"), (shape.heads, "attention heads")):
        if number % run.engine.tensor_parallel:
            found.append(f"TENSOR_PARALLEL={run.engine.tensor_parallel} does not divide the {number} {what}")
    if run.kind != "presample" and run.engine.max_tokens * run.ulysses < run.longest_row:
        found.append(
            f"MAX_TOKENS_PER_GPU={run.engine.max_tokens} is less than the longest row, {run.longest_row} tokens"
        )
    return found


# --------------------------------------------------------------------------------------------------------------- time


def seconds(run: Workload, shape: ModelShape, gpu: GpuType) -> dict[str, float]:
    """Seconds of each phase of a training step; empty for other programs, and if the GPU's speed is unknown.

    Log-probs take a forward pass, 2 N FLOP per token. The update takes 8 N in each epoch: a forward pass, a backward
    pass of twice its cost, and the forward pass again. The rollout computes each prompt once, reads a sample's cache
    for each of its tokens, and reads the weights for each token of the longest response: 2 N p t_p / (G F) + n p t_r
    (t_p + t_r / 2) 4 L k / (G B) + t_max 2 N / (P B), for p prompts of t_p tokens with n responses each of t_r tokens.
    Transfers of weights and between the nodes are left out.
    """
    if run.kind != "train" or gpu.tflops is None or gpu.bandwidth is None:
        return {}
    flops, bandwidth, n = gpu.tflops * 1e12, gpu.bandwidth * 1e12, shape.parameters
    row, response = run.row_tokens
    prompt, longest = row - response, min(run.max_response, LONGEST_OF_MEAN * response)
    rows = run.prompts * run.samples
    cache = 4 * shape.layers * shape.kv_width * rows * response * (prompt + response / 2)
    rollout = 2 * n * run.prompts * prompt / (run.gpus * flops) + cache / (run.gpus * bandwidth)
    rollout += longest * 2 * n / (run.engine.tensor_parallel * bandwidth)

    def compute(rows: int, passes: int) -> float:
        """2 N per token and pass; sdpa computes the whole T x T square too, 4 T a L per token and pass."""
        masked = 4 * run.engine.max_tokens * shape.attention_width * shape.layers if run.attention == SDPA else 0
        return passes * rows * row / run.gpus * (2 * n + masked / MASKED) / flops

    log_probs = compute(rows, 1)
    reference = {"reference log-probs": log_probs} if run.reference else {}
    update = run.epochs * compute(rows + run.pef_rows, 4)
    return {"rollout": rollout, "old log-probs": log_probs} | reference | {"update": update}
