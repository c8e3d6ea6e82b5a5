"""Whether a D_pef store belongs to the run that rehearses it."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from rl.checks.files import files_of
from rl.checks.finding import Finding, warn
from rl.common.errors import UserError
from rl.common.fingerprint import short
from rl.common.text import number_of
from rl.data.rows import ids_of
from rl.data.split import model_of
from verl.dph.pef.origin import origin_of
from verl.dph.pef.refinement import failed_ids
from verl.dph.pef.row_filter import usable
from verl.dph.pef.row_sources import check_texts
from verl.dph.pef.store import DELETE, Store
from verl.dph.training import checkpoint_parts
from verl.dph.training.config import has_anchor, has_divergence, rehearses
from verl.dph.training.pef_feed import PefFeed

logger = logging.getLogger(__name__)


def check_feed(config: DictConfig, resumed: Path | None) -> None:
    """Reject a store that does not belong to this run, and a checkpoint that the run cannot continue with it.

    Args:
        resumed: the checkpoint that the run continues.
    """
    if not has_divergence(config):
        return
    store = _checked_store(config) if rehearses(config) else None
    feed = PefFeed(config, store, _checked_anchor(config) if has_anchor(config) else None)
    if resumed is not None:
        checkpoint_parts.load(resumed, checkpoint_parts.parts_of(feed))


def check_split(data: DictConfig, keys: Sequence[str], model: str) -> None:
    """Reject parts of a split that samples of another model decided: near-perfect is a fact about a model.

    Args:
        keys: the settings in `data` that name the files.
        model: the run's model_hash.
    """
    for key in keys:
        for file in files_of(data[key]):
            before = model_of(file) if file.is_file() else None
            if before not in (None, model):
                raise UserError(
                    f"data.{key}={file} was split by the samples of another model (model_hash {short(before)}, this "
                    f"run's is {short(model)}): sample and split the prompts with this run's model, or train the "
                    "split's model (MODEL_PATH)."
                )


def warn_of_other_rules(config: DictConfig, verdict: str) -> None:
    """Warn of a store whose responses a scorer with other rules than the run's called correct.

    Args:
        verdict: what decides the verdicts of the run's scorer; "" if no server says it.
    """
    path = os.path.expanduser(config.data.sft_pt)
    before = Store.load(path).meta.get("scorer")  # older stores, and those of given responses, do not say it
    if before and verdict and before != verdict:
        logger.warning(
            "The responses of %s were judged by a scorer with other rules (verdict_sha256 %s, now %s): if the rules "
            "differ in what is correct, sample again.",
            path,
            short(before),
            short(verdict),
        )


def without_row(config: DictConfig) -> Finding | None:
    """Warn of near-perfect prompts that are neither in the store nor failed its refinement: of another split."""
    path, data = os.path.expanduser(config.data.sft_pt), config.data
    store = Store.load(path)
    failed = (failed_ids(correct) for correct in files_of(data.sft_files))
    left = ids_of(files_of(data.sft_files)).difference({row.id for row in store.rows}, *failed)
    if "responses" in store.meta or not left:
        return None
    has, are = ("has", "is") if len(left) == 1 else ("have", "are")
    unused = "not rehearsed" if left & ids_of(files_of(data.train_files)) else "neither rehearsed nor explored"
    # A store of given responses is complete whatever the split.
    write = f"write the store again ({DELETE} first)" if "samples" in store.meta else "run dph store again"
    return warn(
        f"{number_of(len(left), 'prompt')} of data.sft_files {has} no row in {path} and {are} {unused}: "
        f"if the split was made again after the store, {write}.",
    )


def _check_prompts(store: Store, path: str, data: DictConfig) -> None:
    """Reject a store of another split: its prompts may be explored and rehearsed at once.

    A store of responses from elsewhere has the prompts that these name.
    """
    if "responses" in store.meta:
        return
    files = files_of(data.sft_files)
    ids = ids_of(files)
    if store.meta.get("coverage") == "solved":
        more = files_of(data.train_files) + files_of(data.sft_wrong_files)
        files, ids = files + more, ids | ids_of(more)
    if others := [row.id for row in store.rows if row.id not in ids]:
        raise UserError(
            f"D_pef store {path} has {number_of(len(others), 'row')} (the first has id {others[0]}) whose prompts are "
            f"not in {' or '.join(map(str, files))}: write the store again for this split ({DELETE} first), or "
            "name the files of its own split in data.sft_files and data.train_files."
        )


def _checked_anchor(config: DictConfig) -> Store:
    """The rows of data.sft_anchor_pt that the run can use. Its prompts may be in none of the run's files."""
    path = os.path.expanduser(config.data.sft_anchor_pt)
    store = Store.load(path)
    store.check_origin(path, origin_of(config))
    rows, found = usable(store, config, "sft_anchor")
    logger.info("The anchor %s (%s): rehearsing on %s", path, store.size(path), found)
    return rows


def _checked_store(config: DictConfig) -> Store:
    """The rows of data.sft_pt that the run can use."""
    path = os.path.expanduser(config.data.sft_pt)
    store = Store.load(path)
    store.check_origin(path, origin_of(config))
    check_split(config.data, ("sft_files", "sft_wrong_files", "train_files"), str(store.meta["model_hash"]))
    _check_prompts(store, path, config.data)
    names = (name for key in ("sft_files", "train_files", "sft_wrong_files") for name in files_of(config.data[key]))
    check_texts(store, path, config, [file for file in dict.fromkeys(names) if file.is_file()])
    rows, found = usable(store, config)
    logger.info("D_pef store %s (%s): rehearsing on %s", path, store.size(path), found)
    actor = config.actor_rollout_ref.actor
    is_sft = (actor.sft_loss_mode, actor.sft_kl_estimator) == ("forward", "k1")
    if "responses" in store.meta and not is_sft:
        logger.warning(
            "The responses of %s were not sampled from the initial policy, so sft_loss_mode=%s as set here is not a "
            "divergence on them; sft_loss_mode=forward with k1 is supervised fine-tuning.",
            path,
            actor.sft_loss_mode,
        )
    return rows
