"""Reference log-probs of a store's responses: computed by the training engine, and kept in parts while it is written.

A run that dies loses only the part that it was computing. Each part is a safetensors file with a hash of the rows, the
model and the settings that it belongs to; a part with another hash is computed again and replaced.
"""

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transfer_queue as tq
from omegaconf import DictConfig
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from tensordict import TensorDict
from tqdm import tqdm
from transfer_queue import KVBatchMeta
from verl.workers.utils.padding import response_from_nested

from rl.common.atomic_write import replacing
from rl.common.errors import UserError
from verl.dph.pef.batch_fields import jagged, token_fields
from verl.dph.pef.store import Row, rows_digest

# The engine's log-probs of the responses of a list of rows: (R,) float32 per row, nats.
Compute = Callable[[list[Row]], list[torch.Tensor]]
_NAME = "ref_log_probs"  # in a part's file


def reference_of(workers: Any, rollout: DictConfig, rows: list[Row], *, ranks: int) -> list[torch.Tensor]:
    """Log-probs of the responses of `rows`, computed through TransferQueue as in a training step, sharded over ranks.

    Args:
        workers: the actor's worker group (DPHWorker).
        rollout: actor_rollout_ref.rollout.
        rows: any number. The engine cuts them into micro-batches itself, which without dynamic batching are whole.
        ranks: that see different rows.

    Returns:
        (R,) float32 per row, nats, at the training temperature.
    """
    multiple = ranks
    if not rollout.log_prob_use_dynamic_bsz:
        multiple *= rollout.log_prob_micro_batch_size_per_gpu
    padded = rows + rows[-1:] * (-len(rows) % multiple)
    keys = [f"ref{uuid.uuid4().hex}_0_0" for _ in padded]
    ones = [torch.ones_like(row.response) for row in padded]
    fields = token_fields(padded) | {"response_mask": ones, "loss_mask": ones}
    columns = {name: jagged(parts, torch.int64) for name, parts in fields.items()}
    tags = [{"seq_len": len(ids)} for ids in fields["input_ids"]]
    tq.kv_batch_put(keys=keys, tags=tags, partition_id="train", fields=TensorDict(columns, batch_size=len(padded)))
    settings = {
        "calculate_entropy": False,
        "compute_loss": False,
        "temperature": rollout.temperature,
    }
    try:
        batch = KVBatchMeta(keys=keys, tags=tags, partition_id="train", fields=list(fields), extra_info=settings)
        workers.compute_log_prob(batch)
        data = tq.kv_batch_get(keys=keys, partition_id="train", select_fields=["log_probs", "response_mask"])
    finally:
        tq.kv_clear(keys=keys, partition_id="train")
    # Copied, because they are views of tensors that also hold the prompts' log-probs.
    responses = response_from_nested(data["log_probs"], data["response_mask"]).unbind()
    return [part.to(torch.float32, copy=True) for part in responses[: len(rows)]]


def fill_in_parts(rows: list[Row], compute: Compute, *, folder: Path, size: int, origin: dict) -> int:
    """Set ref_log_probs of every row, `size` rows at a time; each part is written before the next.

    Args:
        folder: of the parts; created if missing, left for the caller to delete.
        size: rows per part. The result does not depend on it, but parts of another size are not found again.
        origin: model and settings that `compute` depends on (JSON).

    Returns:
        How many rows' values were read from parts of an earlier run.

    Raises:
        UserError: a part cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = 0
    with tqdm(total=len(rows), desc="reference log-probs", unit="row") as progress:
        for number, start in enumerate(range(0, len(rows), size)):
            part = rows[start : start + size]
            path, key = folder / f"{number:05}.safetensors", _key(part, origin)
            values = _read(path, key, part)
            if values is None:
                values = compute(part)
                _write(path, key, values)
            else:
                found += len(part)
            for row, log_probs in zip(part, values, strict=True):
                row.ref_log_probs = log_probs
            progress.update(len(part))
    return found


def _key(rows: list[Row], origin: dict) -> str:
    digest = rows_digest(rows)
    digest.update(json.dumps(origin, sort_keys=True).encode())
    return digest.hexdigest()


def _read(path: Path, key: str, rows: list[Row]) -> list[torch.Tensor] | None:
    """The values of a part, None when its file is missing, unreadable, or of other rows or another origin."""
    try:
        with safe_open(path, "pt") as file:
            if (file.metadata() or {}).get("key") != key:
                return None
            return list(file.get_tensor(_NAME).split([len(row.response) for row in rows]))
    except (OSError, SafetensorError):
        return None


def _write(path: Path, key: str, values: list[torch.Tensor]) -> None:
    try:
        with replacing(path) as aside:
            save_file({_NAME: torch.cat(values)}, aside, metadata={"key": key})
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"{path} cannot be written ({error}): make room and re-run the same command to resume."
        ) from error
