"""Whether a D_pef store belongs to the run that rehearses it."""

import logging
import os
from pathlib import Path

from omegaconf import DictConfig

from rl.common.errors import UserError
from verl.dph.pef.origin import origin_of
from verl.dph.pef.row_filter import usable
from verl.dph.pef.store import Store
from verl.dph.training import checkpoint_parts
from verl.dph.training.config import has_divergence, rehearses
from verl.dph.training.pef_feed import PefFeed

logger = logging.getLogger(__name__)


def check_feed(config: DictConfig, resumed: Path | None) -> None:
    """Reject a store that does not belong to this run, and a checkpoint that the run cannot continue with it.

    Args:
        resumed: the checkpoint that the run continues.

    Raises:
        UserError: saying what differs.
    """
    if not has_divergence(config):
        return
    feed = PefFeed(config, _checked_store(config) if rehearses(config) else None)
    if resumed is not None:
        checkpoint_parts.load(resumed, checkpoint_parts.parts_of(feed))


def _checked_store(config: DictConfig) -> Store:
    """The rows of data.sft_pt that the run can use."""
    path = os.path.expanduser(config.data.sft_pt)
    store = Store.load(path)
    store.check_origin(path, origin_of(config))
    if config.actor_rollout_ref.actor.sft_loss_estimator == "topk" and not store.top_k:
        raise UserError(
            f"D_pef store {path} holds no next-token distributions, which actor.sft_loss_estimator=topk compares: "
            "run get_correct_data_tensor.sh (scripts/llama, scripts/qwen) with data.sft_top_k=64, which adds them, or "
            "use sft_loss_estimator=sampled."
        )
    rows = usable(store, config)
    logger.info("D_pef store %s (%s): rehearsing on %s", path, store.size(path), rows)
    actor = config.actor_rollout_ref.actor
    is_sft = (actor.sft_loss_mode, actor.sft_loss_estimator, actor.sft_kl_estimator) == ("forward", "sampled", "k1")
    if "responses" in store.meta and not is_sft:
        logger.warning(
            "The responses of %s were not sampled from the initial policy, so sft_loss_mode=%s as set here is not a "
            "divergence on them; sft_loss_mode=forward with k1, sampled, is supervised fine-tuning.",
            path,
            actor.sft_loss_mode,
        )
    return rows.store
