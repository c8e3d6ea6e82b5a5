"""What a run's reference log-probs depend on. A store records it, and a run compares it before it uses the store."""

import json

from omegaconf import DictConfig
from verl.utils.torch_dtypes import PrecisionType

from rl.common.fingerprint import model_hashes
from verl.dph.sampling.job import chat_template, override_config


def origin_of(config: DictConfig) -> dict[str, str | int | float]:
    """The origin of log-probs that this run's training engine computes, for a store's `meta`."""
    model, rollout = config.actor_rollout_ref.model, config.actor_rollout_ref.rollout
    return {
        "model": str(model.path),
        **model_hashes(model.path, model.tokenizer_path),
        "temperature": float(rollout.temperature),
        "top_p": float(rollout.top_p),
        "rollout_top_k": int(rollout.top_k),
        "seed": int(config.data.sft_seed),
        "max_response_length": int(config.data.max_response_length),
        "engine_dtype": engine_dtype(config),
        "chat_template": chat_template(config),
        "override_config": json.dumps(override_config(config.actor_rollout_ref.model), sort_keys=True),
    }


def engine_dtype(config: DictConfig) -> str:
    """The dtype of verl's FSDP engine (workers/engine/fsdp/transformer_impl.py): float32, bfloat16 or float16."""
    mixed_precision = config.actor_rollout_ref.actor.fsdp_config.get("mixed_precision") or {}
    return str(PrecisionType.to_dtype(mixed_precision.get("param_dtype", "bf16"))).removeprefix("torch.")
