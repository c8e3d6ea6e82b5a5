"""What a run that writes the D_pef store (actor.generate_sft=True) must have, checked before anything starts."""

from omegaconf import DictConfig
from transformers import AutoConfig
from verl.utils.fs import copy_to_local

from rl.common.errors import UserError
from verl.dph.training.required_files import require_files

# data.sft_top_k: below, the bucket of all other tokens is no small part; above, the store grows (6 bytes a token and
# position) and the divergence hardly changes.
TOP_K_MIN, TOP_K_MAX = 8, 128


def check(config: DictConfig) -> None:
    """Refuse files, numbers and words of data.sft_* that cannot work.

    Raises:
        UserError: naming the setting, what was found and what to do.
    """
    data = config.data
    require_files(config, "sft_files")
    if not data.sft_pt:
        raise UserError("actor.generate_sft=True writes the D_pef store, but data.sft_pt is not set: name its file.")
    if data.sft_refinement_failures not in ("move", "drop"):
        raise UserError(f"data.sft_refinement_failures={data.sft_refinement_failures} is unknown: use move or drop.")
    if data.sft_refinement_failures == "move":
        require_files(config, "sft_wrong_files")
    if data.sft_reference_rows < 1:
        raise UserError(f"data.sft_reference_rows={data.sft_reference_rows} must be at least 1: 256 is usual.")
    if data.sft_check_tolerance is not None and not data.sft_check_tolerance > 0:
        raise UserError(f"data.sft_check_tolerance={data.sft_check_tolerance} must be above 0, in nats, or null.")
    _check_top_k(config)


def _check_top_k(config: DictConfig) -> None:
    k = config.data.sft_top_k
    if not k:
        return
    if not TOP_K_MIN <= k <= TOP_K_MAX:
        raise UserError(f"data.sft_top_k={k} must be 0 (none) or {TOP_K_MIN} to {TOP_K_MAX}.")
    path = config.actor_rollout_ref.model.path
    model = AutoConfig.from_pretrained(
        copy_to_local(path), trust_remote_code=config.actor_rollout_ref.model.trust_remote_code
    )
    vocabulary = model.get_text_config().vocab_size
    if k > vocabulary:
        raise UserError(f"data.sft_top_k={k} is more than the {vocabulary} tokens of {path}: use {vocabulary} or less.")
