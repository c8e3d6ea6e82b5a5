"""The attention of the models that a run trains: flash attention where it can be had, else sdpa.

transformers knows three ways to the same result (PreTrainedModel._check_and_adjust_attn_implementation):

    flash_attention_2              the package flash-attn
    kernels-community/flash-attn2  its kernel, which the package kernels downloads from the Hugging Face Hub
    sdpa                           torch's own, which reads packed rows through a dense mask

verl packs rows for all three, and its Ulysses wraps transformers' call of flash attention, whichever of the two it is.
"""

import functools
import importlib
import logging
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from omegaconf import DictConfig, open_dict
from packaging.requirements import Requirement

from rl.common.errors import UserError

logger = logging.getLogger(__name__)

FLASH, KERNEL, SDPA = "flash_attention_2", "kernels-community/flash-attn2", "sdpa"

# verl's default of actor.ppo_max_token_len_per_gpu.
MICRO_BATCH_TOKENS = 16384


def complete(config: DictConfig) -> None:
    """Settle what a run leaves open: on GPUs its models' attention, said in a line, and the tokens of a micro-batch.

    Raises:
        UserError: the attention that is configured cannot be used in this environment.
    """
    said = _set_attention(config) if config.trainer.device == "cuda" else ""
    tokens = _set_micro_batch(config)
    if said:
        logger.info(said + _price(config, tokens))


def _set_attention(config: DictConfig) -> str:
    model, critic = config.actor_rollout_ref.model, config.critic.model
    for name, settings in (("actor_rollout_ref.model", model), ("critic.model", critic)):
        configured = settings.override_config.get("attn_implementation")
        reason = why_not(configured) if configured else None
        # transformers takes the kernel itself then.
        by_kernel = configured == FLASH and not find_spec("flash_attn") and not why_not(KERNEL)
        if reason and not by_kernel:
            raise UserError(
                f"{name}.override_config.attn_implementation={configured} cannot be used: {reason}. Install what is "
                f"missing (docs/quickstart.md), or leave the setting out: {choose()[0]} is then chosen here."
            )
    chosen, reasons = model.override_config.get("attn_implementation"), ["it is configured"]
    if not chosen:
        chosen, reasons = choose()
    for settings in (model, critic):
        if not settings.override_config.get("attn_implementation"):
            with open_dict(settings):
                settings.override_config.attn_implementation = chosen
    return f"Attention: {chosen}" + (f", because {' and '.join(reasons)}" if reasons else "")


def _set_micro_batch(config: DictConfig) -> int:
    """A row is not cut, so that a micro-batch has to hold the longest; a dense mask makes all beyond it dear."""
    actor = config.actor_rollout_ref.actor
    if actor.ppo_max_token_len_per_gpu is None:
        longest = config.data.max_prompt_length + config.data.max_response_length
        actor.ppo_max_token_len_per_gpu = longest if has_dense_mask(config) else max(MICRO_BATCH_TOKENS, longest)
    return actor.ppo_max_token_len_per_gpu


def has_dense_mask(config: DictConfig) -> bool:
    """Whether the actor sees the packed rows of a micro-batch through a mask of T x T tokens."""
    model = config.actor_rollout_ref.model
    is_flash = "flash" in model.override_config.get("attn_implementation", FLASH)
    return config.trainer.device == "cuda" and model.use_remove_padding and not is_flash


def _price(config: DictConfig, tokens: int) -> str:
    if not has_dense_mask(config):
        return "."
    return (
        f". It computes the same through a dense mask: {tokens:,} packed tokens take the attention of one row of that "
        f"length and {3e-9 * tokens**2:.1f} GB (estimated). Install flash-attn, or lower MAX_TOKENS_PER_GPU "
        "(actor_rollout_ref.actor.ppo_max_token_len_per_gpu) to the longest row."
    )


def choose() -> tuple[str, list[str]]:
    """The first attention that this environment has, and why none before it was taken."""
    reasons: list[str] = []
    for implementation in (FLASH, KERNEL):
        reason = why_not(implementation)
        if reason is None:
            return implementation, reasons
        reasons.append(reason)
    return SDPA, reasons


def why_not(implementation: str) -> str | None:
    """Why an attention cannot be used in this environment; None: it can, or it is one that is not checked."""
    if implementation == FLASH:
        return _why_not_flash_attn()
    return _why_not_kernel(implementation) if "/" in implementation else None


def _why_not_flash_attn() -> str | None:
    if not find_spec("flash_attn"):
        return "flash-attn is not installed"
    try:
        importlib.import_module("flash_attn").flash_attn_varlen_func  # noqa: B018
    except Exception as error:  # built against another torch, it fails in the dynamic linker
        return f"flash-attn cannot be imported ({_first_line(error)})"
    return None


def _why_not_kernel(implementation: str) -> str | None:
    """Downloads the kernel, if the cache does not have it: whether the Hub can be reached shows in no other way."""
    if not find_spec("kernels"):
        return "kernels is not installed"
    from transformers.dependency_versions_table import deps

    wanted = Requirement(deps["kernels"])
    if version("kernels") not in wanted.specifier:
        return f"kernels {version('kernels')} is not the one that transformers takes ({wanted})"
    repository, _, revision = implementation.partition(":")[0].partition("@")
    try:
        importlib.import_module("kernels").install_kernel(repository, revision=revision or "main")
    except Exception as error:  # no network, no such repository, no build for this torch
        return f"kernels cannot fetch {repository} ({_first_line(error)})"
    return None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def use_configured_attention(models: Any) -> None:
    """Let verl load a critic with the attention of its config: its own loader asks for flash_attention_2 in any case.

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
