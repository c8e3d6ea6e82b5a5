"""An estimate of the main memory of a run on a CPU, from the code of verl, torch and transformers.

docs/howto/plan.md has it beside a measured run. Symbols as in rl/checks/estimate.py; b bytes of a number in which the
actor computes, c of one in which the rollout does.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl.checks.estimate import ROLLOUT, Parts, fsdp_in_flight, has_reference, number_bytes, reject_unmodelled
from rl.checks.model_shape import ModelShape, model_shape
from rl.configuration import ACTOR, micro_batch_tokens
from rl.configuration.names import PRESAMPLE

# Measured with the demo's model of 250,000 parameters, 2.15 in all: the driver, Ray and the scorer; and the two
# processes of a rank, which train and sample.
PROGRAMS, RANK = 1.05e9, 1.1e9
# A bucket of weights on its way to the rollout (verl/dph/hf_rollout/weights.py) is there as tensors, as a file and in
# Ray's store; the rollout collects them all.
COPIES = 3
# The heap's share of gaps: measured, a run of SmolLM2-135M grew from 7.5 to 8.2 GB in ten steps.
GAPS = 0.1
# For each token of the vocabulary that a row may sample: a logit and its log-softmax in float32, the token's weight and
# their sum in float64; with top-p or top-k, sorted weights, ids and sums too.
SAMPLED, RESTRICTED = 4 + 4 + 8 + 8, 40
# What makes a run smaller.
LESS = (
    "lower MAX_TOKENS_PER_GPU (training) or actor_rollout_ref.rollout.max_num_seqs, use a smaller model, or a machine "
    "with more memory"
)
# Files of the limit of a container's memory: cgroups of version 2 and 1.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
# What the container uses, and its key in memory.stat of pages that the kernel gives back.
_USED = {"memory.max": "memory.current", "memory.limit_in_bytes": "memory.usage_in_bytes"}
_RETURNED = re.compile(r"^(?:total_)?inactive_file ([0-9]+)$", re.MULTILINE)
_MODELLED: dict[str, tuple[tuple, str]] = {
    "actor_rollout_ref.model.lora_rank": ((0,), "LoRA"),
    "actor_rollout_ref.model.enable_gradient_checkpointing": ((False,), "gradient checkpointing on a CPU"),
    f"{ACTOR}.use_dynamic_bsz": ((True,), "micro-batches of a fixed number of rows"),
    f"{ACTOR}.optim.optimizer": (("AdamW",), "an optimizer other than AdamW"),
    f"{ROLLOUT}.name": (("hf",), "a rollout other than hf on a CPU"),
    "trainer.v1.trainer_mode": (("sync", "colocate_async"), "a rollout in processes of its own"),
}


@dataclass(frozen=True)
class Need:
    """What a run on a CPU needs.

    Attributes:
        model: its shape.
        parts: bytes. The allocator keeps what one phase frees, so that they add up.
    """

    model: ModelShape
    parts: Parts

    @property
    def bytes(self) -> float:
        return sum(self.parts.values())


def need_of(program: str, values: Mapping[str, Any]) -> Need:
    """The memory of a launch script's run on a CPU.

    Args:
        program: the module, such as "verl.dph.main".
        values: every setting by its full name, checked (rl/checks/run.py).

    Raises:
        UserError: the formulas do not hold for a setting, or the model's shape is not known.
    """
    reject_unmodelled(values, _MODELLED)
    shape = model_shape(values["actor_rollout_ref.model.path"])
    parts: Parts = {"programs": PROGRAMS + RANK * values["trainer.n_gpus_per_node"]}
    batch = values[f"{ROLLOUT}.max_num_seqs"] * values["trainer.n_gpus_per_node"]  # of all rollout servers
    if program == PRESAMPLE:
        return Need(shape, _with_gaps(parts | _rollout(values, shape, batch)))
    trains = not values[f"{ACTOR}.generate_sft"]
    rows = values["data.train_batch_size"] * values[f"{ROLLOUT}.n"] if trains else batch
    sent = number_bytes(values[f"{ROLLOUT}.dtype"]) * shape.parameters
    # A bucket has at least one tensor, and the embedding is the largest.
    embedding = number_bytes(values[f"{ROLLOUT}.dtype"]) * shape.embedding_parameters
    bucket = max(values[f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes"] << 20, embedding)
    transfer: Parts = {"weights in transfer": sent + COPIES * min(sent, bucket)}
    parts |= _state(values, shape, trains) | _pass(values, shape, trains)
    return Need(shape, _with_gaps(parts | _rollout(values, shape, rows) | transfer))


def _with_gaps(parts: Parts) -> Parts:
    return parts | {"gaps of the heap": GAPS * sum(parts.values())}


def _state(values: Mapping[str, Any], shape: ModelShape, trains: bool) -> Parts:
    """4 N of float32 parameters, 8 N of Adam, 4 N of gradients, and 4 N of a reference model."""
    number: float = 4 * shape.parameters
    if not trains:
        return {"parameters": number}
    reference = {"reference model": number} if has_reference(values) else {}
    return {"parameters": number, "Adam's moments": 2 * number, "gradients": number} | reference


def _pass(values: Mapping[str, Any], shape: ModelShape, trains: bool) -> Parts:
    """What all layers keep for a backward pass (`layer_bytes`), and the logits, b T V: as the model gives them, without
    padding, and in an update the gradient of the former. Each rank has its own T tokens. And what FSDP gathers."""
    number = number_bytes(values.get(f"{ACTOR}.fsdp_config.mixed_precision.param_dtype"))
    longest = values["data.max_prompt_length"] + values["data.max_response_length"]
    of_rank = values[f"{ACTOR}.ppo_max_token_len_per_gpu"] or micro_batch_tokens(longest, dense_mask=False)
    tokens = values["trainer.n_gpus_per_node"] * of_rank
    eager = values.get("actor_rollout_ref.model.override_config.attn_implementation") == "eager"
    kept = layer_bytes(shape, number, longest if eager else 0) * shape.layers
    activations = {"activations": tokens * kept} if trains else {}
    return activations | {"logits": (3 if trains else 2) * number * tokens * shape.vocabulary} | fsdp_in_flight(shape)


def layer_bytes(shape: ModelShape, number: int, eager_row: int) -> int:
    """Bytes that a layer keeps of a token for its backward pass: (8 + 4 b) d + 4 b (a + m); and without sdpa the
    weights of each head on the tokens of a row, in float32 and, if that is another type, in the computation's.

    Args:
        number: b.
        eager_row: tokens of a row; 0 with sdpa.
    """
    width = shape.attention_width + shape.intermediate
    weights = shape.heads * eager_row * (4 if number == 4 else 4 + number)
    return (8 + 4 * number) * shape.hidden + 4 * number * width + weights


def _rollout(values: Mapping[str, Any], shape: ModelShape, rows: int) -> Parts:
    """The rollout's weights, c N on each rank; and for the rows that are sampled together keys and values, 2 c k L per
    token, and what the choice of a token takes, V numbers per row."""
    ranks, number = values["trainer.n_gpus_per_node"], number_bytes(values[f"{ROLLOUT}.dtype"])
    together = min(rows, values[f"{ROLLOUT}.max_num_seqs"] * ranks)
    longest = values["data.max_prompt_length"] + values["data.max_response_length"]
    restricted = values[f"{ROLLOUT}.top_p"] < 1 or values[f"{ROLLOUT}.top_k"] > 0
    choice = number + SAMPLED + (RESTRICTED if restricted else 0)
    return {
        "rollout's weights": ranks * number * shape.parameters,
        "keys and values": 2 * number * shape.kv_width * shape.layers * longest * together,
        "sampling": choice * shape.vocabulary * together,
    }


def memory() -> tuple[int, int]:
    """Bytes that this machine or container has, and how many of them are free.

    Without psutil, because `dph doctor` also looks at environments that lack packages.
    """
    text = Path("/proc/meminfo").read_text()
    found = dict(re.findall(r"^(MemTotal|MemAvailable): *([0-9]+) kB$", text, re.MULTILINE))
    total, free = 1024 * int(found["MemTotal"]), 1024 * int(found["MemAvailable"])
    for path in (path for path in map(Path, _LIMITS) if path.is_file()):
        limit = path.read_text().strip()
        if limit.isdecimal() and int(limit) < total:
            total = int(limit)
            free = min(free, total - _used(path))
    return total, max(free, 0)


def _used(limit: Path) -> int:
    """Bytes that a container uses, without pages of files that can be given back; 0 if it does not say.

    Args:
        limit: one of _LIMITS.
    """
    used, stat = limit.with_name(_USED.get(limit.name, "")), limit.with_name("memory.stat")
    if not used.is_file():
        return 0
    returned = _RETURNED.findall(stat.read_text()) if stat.is_file() else []
    return int(used.read_text()) - max(map(int, returned), default=0)
