"""Write the D_pef store: `actor.generate_sft=True` (scripts/*/get_correct_data_tensor.sh).

By default every near-perfect prompt is sampled once more (docs/explanation/method.md, refinement). A correct sample is
stored as token ids with the reference log-probs of the training engine. Prompts whose sample fails are listed in a file
beside the near-perfect ones (refinement.py). Samples and log-probs are kept in files until the store is complete, so a
stopped run resumes. The store gets its name only after some of its rows, computed again, agree.

With data.sft_coverage=solved, several responses per prompt, or data.sft_responses, the rows are given (row_sources.py):
nothing is sampled, and no prompt fails.
"""

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig

from rl.checks.files import files_of
from rl.common import atomic_write
from rl.common.errors import UserError
from rl.data.sample_file import read_metadata, read_samples
from verl.dph.pef import refinement
from verl.dph.pef.origin import origin_of
from verl.dph.pef.ref_logprobs import Compute, fill_in_parts
from verl.dph.pef.row_sources import check_source, given_rows, source_of
from verl.dph.pef.store import DELETE, Row, Store
from verl.dph.pef.verify import check_reference
from verl.dph.sampling.job import draw

logger = logging.getLogger(__name__)


def write_store(
    config: DictConfig,
    *,
    client: Callable[[], Any],
    free_rollouts: Callable[[], object],
    reference: Compute,
) -> None:
    """Sample or read responses, write data.sft_pt with their log-probs, and list the prompts whose sample failed.

    Args:
        config: verl's trainer settings. The rollout servers and the training engine hold the initial policy.
        client: makes a client of the rollout servers.
        free_rollouts: lets the rollout servers free their weights and caches; nothing is sampled from then on.
        reference: `ref_logprobs.reference_of` of the training engine.

    Raises:
        UserError: no near-perfect prompt survives, the scorer is unreachable, a file cannot be written, or the engine
            does not reproduce its log-probs.
    """
    data = config.data
    [correct] = files_of(data.sft_files)
    path = Path(data.sft_pt).expanduser()
    parts = path.with_suffix(".parts")
    origin, source = origin_of(config), source_of(data)
    if is_finished(path, correct, source):
        shutil.rmtree(parts, ignore_errors=True)
        if not source:  # a split that was made again has forgotten them
            refinement.write_failed(data, solved={row.id for row in Store.load(str(path)).rows})
        logger.info("%s is complete: nothing to do (%s to write it anew)", path, DELETE)
        return
    store = given_rows(config) if source else _sampled(config, client)
    store.meta |= origin | source
    free_rollouts()
    found = fill_in_parts(store.rows, reference, folder=parts, size=data.sft_reference_rows, origin=origin)
    if found:
        logger.info("%d of %d rows had their log-probs in %s", found, len(store), parts)
    failed = 0 if source else refinement.write_failed(data, solved={row.id for row in store.rows})
    _write_checked(store, path, reference, config)
    if source:
        logger.info("%s holds %d responses to %s prompts (%s)", path, len(store), store.meta["kept"], store.size(path))
    else:
        logger.info(
            "%s holds %d of %d near-perfect prompts (%s); the other %d are explored with %s",
            path,
            len(store),
            store.meta["prompts"],
            store.size(path),
            failed,
            data.sft_wrong_files,
        )
    shutil.rmtree(parts)


def _write_checked(store: Store, path: Path, reference: Compute, config: DictConfig) -> None:
    """Write the store, and give it its name once its rows, read back, agree with the engine."""
    settings = {"dtype": str(store.meta["engine_dtype"]), "tolerance": config.data.sft_check_tolerance}
    with atomic_write.replacing(path) as unchecked:
        store.save(str(unchecked))
        written = Store.load(str(unchecked))
        worst = check_reference(written, str(path), reference, **settings, seed=config.data.sft_seed)
    logger.info("reference log-probs computed again differ by %.2g nats in the worst row (%.2g are allowed)", *worst)


def _sampled(config: DictConfig, client: Callable[[], Any]) -> Store:
    """Sample every near-perfect prompt once more; the correct samples as rows without reference log-probs."""
    job = refinement.job_of(config)
    asyncio.run(draw(job, lambda: contextlib.nullcontext(client())))
    # Only token ids are kept in memory: there may be 100,000 prompts.
    correct_responses = {
        record.id: torch.tensor(record.response_ids, dtype=torch.int32)
        for record in read_samples(job.output)
        if record.solves
    }
    rows = [
        Row(prompt.id, torch.tensor(prompt.token_ids, dtype=torch.int32), correct_responses[prompt.id], None)
        for prompt in job.prompts
        if prompt.id in correct_responses
    ]
    if not rows:
        raise UserError(
            f"None of the {len(job.prompts)} prompts of {config.data.sft_files} was solved again: lower the "
            "threshold of the split, or check the scorer."
        )
    return Store({"prompts": len(job.prompts), "kept": len(rows), "scorer": read_metadata(job.output).scorer}, rows)


def is_finished(path: Path, correct: Path, source: dict) -> bool:
    """Whether the store exists and is complete: one of refinement samples, if no prompt of `correct` is new to it.

    Raises:
        UserError: its rows come from another source.
    """
    if not path.exists():
        return False
    store = Store.load(str(path))
    check_source(store, path, source)
    return bool(source) or refinement.is_complete(store, correct)
