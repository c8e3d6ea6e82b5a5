"""What a plan needs to know of a run, from its configuration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from shutil import which
from typing import Any

from rl.common.errors import UserError

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
OFFLOADS = ("False", "True", "policy")
FLASH, SDPA = "flash attention", "sdpa"
# Tokens of a micro-batch if the settings leave them open and the longest row is shorter.
MICRO_BATCH_TOKENS = 16384
# The scripts' settings that decide whether a run fits, the override that sets each, and the keys that it decides.
OVERRIDES = {
    "OFFLOAD": "launch.offload",
    "GPU_MEMORY_UTILIZATION": f"{ROLLOUT}.gpu_memory_utilization",
    "TENSOR_PARALLEL": f"{ROLLOUT}.tensor_model_parallel_size",
    "MAX_TOKENS_PER_GPU": f"{ACTOR}.ppo_max_token_len_per_gpu",
}
DECIDED = {
    "OFFLOAD": (
        f"{ACTOR}.fsdp_config.param_offload",
        f"{ACTOR}.fsdp_config.optimizer_offload",
        f"{ACTOR}.fsdp_config.offload_policy",
        "actor_rollout_ref.ref.fsdp_config.param_offload",
    ),
    "MAX_TOKENS_PER_GPU": (
        f"{ROLLOUT}.log_prob_max_token_len_per_gpu",
        "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu",
    ),
}


@dataclass(frozen=True)
class Engine:
    """The settings that a plan may choose.

    Attributes:
        offload: "False"; "True": parameters and Adam's moments are in main memory while the other phase runs; "policy":
            they stay there, FSDP2 fetches layer by layer, and Adam runs on the CPU.
        utilization: vLLM's share of a GPU's memory.
        tensor_parallel: GPUs of one vLLM replica.
        max_tokens: of a micro-batch on a GPU, T.
    """

    offload: str
    utilization: float
    tensor_parallel: int
    max_tokens: int

    def settings(self) -> dict[str, str]:
        """As the scripts' environment variables, in the order in which a sentence names them."""
        return {
            "OFFLOAD": self.offload,
            "GPU_MEMORY_UTILIZATION": f"{self.utilization:g}",
            "TENSOR_PARALLEL": str(self.tensor_parallel),
            "MAX_TOKENS_PER_GPU": str(self.max_tokens),
        }


@dataclass(frozen=True)
class RunSettings:
    """A run, for its plan.

    Attributes:
        kind: "train", "store" or "presample".
        model: a folder or a name.
        nodes, gpus_per_node: of the trainer.
        shard_gpus: GPUs that share the parameters, R.
        max_prompt, max_response: tokens.
        prompts, samples, mini_batches: of a step, per prompt, of a step.
        pef_rows: D_pef rows of a step, 0 for none.
        top_k: of the stored distributions; 0: none.
        reference: a reference model computes log-probs in each step.
        number: bytes of a number of the parameters.
        bucket: bytes in which weights go to vLLM.
        attention: FLASH or SDPA, of the trainer.
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
    mini_batches: int
    pef_rows: int
    top_k: int
    reference: bool
    dynamic_sampling: bool
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
    def chosen_from(self) -> list[str]:
        """The settings of OVERRIDES that this program has."""
        return ["GPU_MEMORY_UTILIZATION", "TENSOR_PARALLEL"] if self.kind == "presample" else list(OVERRIDES)

    def engine_settings(self) -> dict[str, str]:
        """Their values, as the scripts' environment variables."""
        return {name: value for name, value in self.engine.settings().items() if name in self.chosen_from}

    @property
    def longest_row(self) -> int:
        return self.max_prompt + self.max_response

    def on_gpus(self, gpus: int) -> "RunSettings":
        """The same run on another number of GPUs, in nodes of 8 where it divides."""
        per_node = gpus if gpus <= 8 else 8 if gpus % 8 == 0 else self.gpus_per_node
        shard = gpus if self.shard_gpus == self.gpus else self.shard_gpus
        return replace(self, nodes=gpus // per_node, gpus_per_node=per_node, shard_gpus=shard)


def run_settings(program: str, values: Mapping[str, Any]) -> RunSettings:
    """Read a program's configuration.

    Args:
        program: the module, such as "verl.dph.main".
        values: every setting by its full name.

    Raises:
        UserError: a setting that a plan does not model, or that is no number.
    """
    for key, modelled, what in _NOT_MODELLED:
        if key in values and not modelled(values[key]):
            raise UserError(f"{what} ({key}={values[key]}) is not modelled.")
    number = _Numbers(values)
    kind = "presample" if program.endswith("presample") else "train"
    if values.get(f"{ACTOR}.generate_sft"):
        kind = "store"
    attention = assumed_attention(values.get("actor_rollout_ref.model.override_config.attn_implementation", ""))
    nodes, per_node = number("trainer.nnodes"), number("trainer.n_gpus_per_node")
    shard = values[f"{ACTOR}.fsdp_config.fsdp_size"]
    prompts = number("data.train_batch_size")
    rehearses = kind == "train" and values.get("data.sft_pt") not in (None, "None")
    top_k = number("data.sft_top_k", 0) if kind == "store" else 0
    if rehearses and values[f"{ACTOR}.sft_loss_estimator"] == "topk":
        top_k = 64  # the store knows; docs/reference/training.md's
    return RunSettings(
        kind=kind,
        model=values["actor_rollout_ref.model.path"],
        nodes=nodes,
        gpus_per_node=per_node,
        shard_gpus=shard if 0 < shard < nodes * per_node else nodes * per_node,
        max_prompt=number("data.max_prompt_length"),
        max_response=number("data.max_response_length"),
        prompts=prompts,
        samples=number(f"{ROLLOUT}.n") if kind == "train" else 1,
        mini_batches=max(1, prompts // number(f"{ACTOR}.ppo_mini_batch_size")),
        pef_rows=number("data.sft_batch_size") if rehearses else 0,
        top_k=top_k,
        reference=values[f"{ACTOR}.use_kl_loss"],
        dynamic_sampling=values["algorithm.filter_groups.enable"],
        strategy=values[f"{ACTOR}.strategy"],
        number=4 if values[f"{ACTOR}.fsdp_config.model_dtype"] in ("fp32", "float32") else 2,
        bucket=number(f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes") << 20,
        attention=attention,
        ulysses=number(f"{ACTOR}.ulysses_sequence_parallel_size"),
        engine=Engine(
            offload=_offload(values),
            utilization=number.real(f"{ROLLOUT}.gpu_memory_utilization"),
            tensor_parallel=number(f"{ROLLOUT}.tensor_model_parallel_size"),
            max_tokens=_max_tokens(values, attention, number),
        ),
    )


def assumed_attention(implementation: str) -> str:
    """FLASH or SDPA.

    Args:
        implementation: transformers' name in the run's settings. "": what this Python can import, on a machine with
            GPUs; elsewhere flash attention, which requirements.txt is for.
    """
    if "flash" in implementation:
        return FLASH
    if implementation not in ("", SDPA):
        raise UserError(f"attn_implementation={implementation} is not modelled, only flash attention and sdpa.")
    has_flash = not which("nvidia-smi") or find_spec("flash_attn") or find_spec("kernels")
    return FLASH if has_flash and not implementation else SDPA


def _max_tokens(values: Mapping[str, Any], attention: str, number: "_Numbers") -> int:
    key = f"{ACTOR}.ppo_max_token_len_per_gpu"
    if values[key] is not None:
        return number(key)
    longest = number("data.max_prompt_length") + number("data.max_response_length")
    return longest if attention == SDPA else max(MICRO_BATCH_TOKENS, longest)


def _offload(values: Mapping[str, Any]) -> str:
    if values[f"{ACTOR}.fsdp_config.offload_policy"]:
        return "policy"
    parts = {values[f"{ACTOR}.fsdp_config.{part}_offload"] for part in ("param", "optimizer")}
    if len(parts) == 2:
        raise UserError("offloading only the parameters or only Adam's moments is not modelled.")
    return str(parts.pop())


# Keys, whether the plan's formulas hold for a value, and what it means that they do not.
_NOT_MODELLED: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("actor_rollout_ref.model.lora_rank", lambda value: value == 0, "LoRA"),
    ("actor_rollout_ref.model.lora.rank", lambda value: value == 0, "LoRA"),
    ("actor_rollout_ref.model.enable_gradient_checkpointing", bool, "training without gradient checkpointing"),
    ("actor_rollout_ref.model.use_remove_padding", bool, "padding rows instead of packing them"),
    ("actor_rollout_ref.model.use_fused_kernels", lambda value: not value, "verl's fused log-probs"),
    (f"{ACTOR}.use_dynamic_bsz", bool, "micro-batches of a fixed number of rows"),
    (f"{ACTOR}.strategy", lambda value: value in ("fsdp", "fsdp2"), "a strategy other than FSDP"),
    (f"{ACTOR}.optim.optimizer", lambda value: value == "AdamW", "an optimizer other than AdamW"),
    (f"{ROLLOUT}.name", lambda value: value == "vllm", "a rollout other than vLLM"),
    (f"{ROLLOUT}.free_cache_engine", bool, "a vLLM that stays awake"),
    ("algorithm.adv_estimator", lambda value: value != "gae", "a critic"),
    ("trainer.v1.trainer_mode", lambda value: value != "separate_async", "a rollout on GPUs of its own"),
)


class _Numbers:
    """Numbers among the settings; a value that is none is a UserError that names its key."""

    def __init__(self, values: Mapping[str, Any]):
        self.values = values

    def __call__(self, key: str, least: int = 1) -> int:
        found = self.values[key]
        if not isinstance(found, int):
            raise UserError(f"{key} is '{found}', no whole number.")
        if found < least:
            raise UserError(f"{key} is {found}: it must be at least {least}.")
        return found

    def real(self, key: str) -> float:
        found = self.values[key]
        if not isinstance(found, (int, float)):
            raise UserError(f"{key} is '{found}', no number.")
        return float(found)
