"""The attention of the models that a run trains: flash attention if it is available, otherwise sdpa.

transformers has, among others (PreTrainedModel._check_and_adjust_attn_implementation):

    flash_attention_2              the package flash-attn
    kernels-community/flash-attn2  its kernel, which the package kernels downloads from the Hugging Face Hub
    sdpa                           torch's implementation, which reads packed rows through a dense mask
    eager                          plain products of matrices, also with Gemma 2's cap on the logits

verl packs rows for all of them, and its Ulysses wraps transformers' call of either flash attention.
"""

import functools
import importlib
import logging
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from packaging.requirements import Requirement
from transformers import PretrainedConfig
from verl.utils.torch_dtypes import PrecisionType

from rl.common.errors import UserError
from rl.configuration import micro_batch_tokens

logger = logging.getLogger(__name__)

KEY = "attn_implementation"
FLASH, KERNEL, SDPA, EAGER = "flash_attention_2", "kernels-community/flash-attn2", "sdpa", "eager"


def complete(config: DictConfig) -> None:
    """Set what a run leaves open: on GPUs its models' attention, which is logged, and the tokens of a micro-batch.

    Raises:
        UserError: the configured attention cannot be used here.
    """
    if config.trainer.device == "cuda":
        _set_attention(config)
    _set_micro_batch(config)


def _set_attention(config: DictConfig) -> None:
    """Set the attention of the actor, its reference and a critic."""
    models = {"actor_rollout_ref.model": config.actor_rollout_ref.model, "critic.model": config.critic.model}
    for name, model in models.items():
        _check_configured(f"{name}.override_config.{KEY}", model.override_config.get(KEY), config)
    chosen, reasons = config.actor_rollout_ref.model.override_config.get(KEY), ["it is configured"]
    if not chosen:
        chosen, reasons = choose(config)
    for model in models.values():
        if not model.override_config.get(KEY):
            with open_dict(model):
                model.override_config[KEY] = chosen
    logger.info("Attention: %s%s", chosen, f", because {' and '.join(reasons)}." if reasons else ".")


def _check_configured(setting: str, configured: str | None, config: DictConfig) -> None:
    reason = why_not(configured, config) if configured else None
    # transformers uses the kernel if it does not find the package.
    if configured == FLASH and not find_spec("flash_attn") and not why_not(KERNEL, config):
        reason = None
    if reason:
        raise UserError(
            f"{setting}={configured} cannot be used: {reason}. Change that, or leave the setting out to "
            f"use {choose(config)[0]}."
        )


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


def choose(config: DictConfig) -> tuple[str, list[str]]:
    """The first attention that can be used here, and why earlier ones cannot."""
    reasons: list[str] = []
    for implementation in (FLASH, KERNEL):
        reason = why_not(implementation, config)
        if reason is None:
            return implementation, reasons
        reasons.append(reason)
    return SDPA, list(dict.fromkeys(reasons))


def soft_cap(described: PretrainedConfig) -> float | None:
    """The soft bound on a model's attention logits, as Gemma 2 has one. sdpa leaves it out without a word."""
    return getattr(described.get_text_config(), "attn_logit_softcapping", None)


def why_not(implementation: str, config: DictConfig) -> str | None:
    """Why an attention cannot be used in this environment; None if it can, or if it is not checked."""
    in_float32 = _in_float32(config)
    if in_float32 and "flash" in implementation:
        return f"flash attention does not support float32 ({in_float32})"
    if implementation == FLASH:
        return _why_not_flash_attn()
    return _why_not_kernel(implementation) if "/" in implementation else None


def _in_float32(config: DictConfig) -> str | None:
    """The setting that makes a model of the run compute in float32; verl's default is bfloat16."""
    for engine in ("actor_rollout_ref.actor.fsdp_config", "actor_rollout_ref.ref.fsdp_config", "critic.fsdp"):
        dtype = OmegaConf.select(config, f"{engine}.mixed_precision.param_dtype")
        if PrecisionType.is_fp32(dtype):
            return f"{engine}.mixed_precision.param_dtype={dtype}"
    return None


def _why_not_flash_attn() -> str | None:
    if not find_spec("flash_attn"):
        return "flash-attn is not installed"
    try:
        importlib.import_module("flash_attn").flash_attn_varlen_func  # noqa: B018
    except Exception as error:  # built against another torch, it fails in the dynamic linker
        return f"flash-attn cannot be imported ({_first_line(error)})"
    return None


def _why_not_kernel(implementation: str) -> str | None:
    """Download the kernel unless it is cached, because only this shows whether the Hub can be reached."""
    if not find_spec("kernels"):
        return "kernels is not installed"
    from transformers.dependency_versions_table import deps

    wanted = Requirement(deps["kernels"])
    if version("kernels") not in wanted.specifier:
        return f"kernels {version('kernels')} is not the version that transformers needs ({wanted})"
    repository, _, revision = implementation.partition(":")[0].partition("@")
    try:
        importlib.import_module("kernels").install_kernel(repository, revision=revision or "main")
    except Exception as error:  # no network, no such repository, no build for this torch
        return f"kernels cannot fetch {repository} ({_first_line(error)})"
    return None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


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
