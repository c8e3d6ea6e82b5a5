"""The attention of the models that a run trains: flash attention if it is available, otherwise sdpa.

transformers has, among others (PreTrainedModel._check_and_adjust_attn_implementation):

    flash_attention_2   the package flash-attn
    sdpa                torch's implementation, which reads packed rows through a dense mask
    eager               plain products of matrices, also with Gemma 2's cap on the logits

verl packs rows for all of them, and its Ulysses wraps transformers' call of flash attention.
"""

import functools
import importlib
import logging
from importlib.util import find_spec
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from transformers import PretrainedConfig
from verl.utils.torch_dtypes import PrecisionType

from rl.configuration import micro_batch_tokens

logger = logging.getLogger(__name__)

KEY = "attn_implementation"
FLASH, SDPA, EAGER = "flash_attention_2", "sdpa", "eager"


def complete(config: DictConfig) -> None:
    """Set what a run leaves open: on GPUs its models' attention, which is logged, and the tokens of a micro-batch."""
    if config.trainer.device == "cuda":
        _set_attention(config)
    _set_micro_batch(config)


def _set_attention(config: DictConfig) -> None:
    """Set the attention of the actor, its reference and a critic."""
    models = (config.actor_rollout_ref.model, config.critic.model)
    configured = models[0].override_config.get(KEY)
    reason = "it is configured" if configured else _why_not_flash_attn(config)
    chosen = configured or (SDPA if reason else FLASH)
    for model in models:
        if not model.override_config.get(KEY):
            with open_dict(model):
                model.override_config[KEY] = chosen
    logger.info("Attention: %s%s", chosen, f", because {reason}." if reason else ".")


def _set_micro_batch(config: DictConfig) -> None:
    """A micro-batch must hold the longest row, because rows are not cut; with a dense mask it holds no more."""
    actor = config.actor_rollout_ref.actor
    if actor.ppo_max_token_len_per_gpu is None:
        longest = config.data.max_prompt_length + config.data.max_response_length
        actor.ppo_max_token_len_per_gpu = micro_batch_tokens(longest, has_dense_mask(config))


def has_dense_mask(config: DictConfig) -> bool:
    """Whether the actor's attention uses a mask of T x T tokens over the packed rows of a micro-batch."""
    model = config.actor_rollout_ref.model
    is_flash = "flash" in model.override_config.get(KEY, FLASH)
    return config.trainer.device == "cuda" and model.use_remove_padding and not is_flash


def soft_cap(described: PretrainedConfig) -> float | None:
    """The soft bound on a model's attention logits, as Gemma 2 has one. sdpa leaves it out without a word."""
    return getattr(described.get_text_config(), "attn_logit_softcapping", None)


def _why_not_flash_attn(config: DictConfig) -> str | None:
    """Why flash-attn cannot be used by this run; None if it can."""
    for engine in ("actor_rollout_ref.actor.fsdp_config", "actor_rollout_ref.ref.fsdp_config", "critic.fsdp"):
        dtype = OmegaConf.select(config, f"{engine}.mixed_precision.param_dtype")
        if PrecisionType.is_fp32(dtype):
            return f"flash attention does not support float32 ({engine}.mixed_precision.param_dtype={dtype})"
    if not find_spec("flash_attn"):
        return "flash-attn is not installed"
    try:
        importlib.import_module("flash_attn").flash_attn_varlen_func  # noqa: B018
    except Exception as error:  # built against another torch, it fails in the dynamic linker
        return f"flash-attn cannot be imported ({(str(error) or type(error).__name__).splitlines()[0]})"
    return None


def use_configured_attention(models: Any) -> None:
    """Let verl load a critic with its configured attention. verl's loader always requests flash_attention_2.

    Args:
        models: the module verl.utils.model.
    """
    verls = models.load_valuehead_model

    @functools.wraps(verls)
    def load_valuehead_model(local_path, torch_dtype, model_config, trust_remote_code):
        if model_config._attn_implementation == FLASH:
            return verls(local_path, torch_dtype, model_config, trust_remote_code)
        from transformers import AutoModelForTokenClassification

        return AutoModelForTokenClassification.from_pretrained(
            local_path, dtype=torch_dtype, config=model_config, trust_remote_code=trust_remote_code
        )

    models.load_valuehead_model = load_valuehead_model
