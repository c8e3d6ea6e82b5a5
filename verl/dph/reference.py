"""Writes the D_pef store: `actor.generate_sft=True` (scripts/*/get_correct_data_tensor.sh).

Every near-perfect prompt is sampled once more. Where that sample is correct, it is kept as token ids with the
reference log-probs of the training engine; the other prompts move to train_wrong (METHOD.md, "Data", refinement). The
samples are records of their own file, so that a run that was stopped goes on where it was.
"""

import asyncio
import logging
import os
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
import transfer_queue as tq
from tensordict import TensorDict
from tqdm import tqdm
from transfer_queue import KVBatchMeta

from verl.dph.errors import UserError
from verl.dph.fingerprint import model_hash, tokenizer_hash
from verl.dph.presample import draw_samples
from verl.dph.records import read_samples
from verl.dph.sampler import SamplingSettings
from verl.dph.store import Row, Store
from verl.workers.utils.padding import response_from_nested

logger = logging.getLogger(__name__)
logger.setLevel(os.getenv("VERL_LOGGING_LEVEL", "INFO"))

# Added to data.sft_seed, so that the refinement sample is a new one and not a sample of the pre-sampling repeated.
REFINEMENT_SEED = 1_000_003

# Rows that go through the training engine in one call; it cuts them into micro-batches itself.
ROWS_A_CALL = 256


def write_store(trainer) -> None:
    """Sample, keep the correct ones with reference log-probs, write data.sft_pt, move the other prompts.

    Args:
        trainer: a DPHTrainer whose workers and rollout servers are up and hold the initial policy.

    Raises:
        UserError: no near-perfect prompt survives, or the scorer is not to be reached.
    """
    config = trainer.config
    correct, wrong = Path(config.data.sft_files), Path(config.data.sft_wrong_files)
    store_path = os.path.expanduser(config.data.sft_pt)
    samples = Path(store_path).with_suffix(".samples.jsonl")
    rollout = config.actor_rollout_ref.rollout
    settings = SamplingSettings(
        n=1,
        temperature=rollout.temperature,
        top_p=rollout.top_p,
        top_k=rollout.top_k,
        max_response_length=config.data.max_response_length,
        seed=config.data.sft_seed + REFINEMENT_SEED,
    )
    if already_written(store_path, correct):
        logger.info("%s already holds every prompt of %s: nothing to do (delete it to draw it anew)", store_path, correct)
        return
    prompts = asyncio.run(
        draw_samples(config, trainer.get_llm_client(), files=[correct], settings=settings, output=samples)
    )
    records = {record.id: record for record in read_samples(samples)}
    kept = [prompt for prompt in prompts if records[prompt.id].acc == 1 and not records[prompt.id].truncated]
    if not kept:
        raise UserError(
            f"None of the {len(prompts)} prompts of {correct} was answered correctly again: lower the threshold of the "
            "split, or check the scorer."
        )
    rows = [
        Row(prompt.id, torch.tensor(prompt.token_ids), torch.tensor(records[prompt.id].response_ids), None)
        for prompt in kept
    ]
    add_reference_log_probs(trainer, rows)
    model = config.actor_rollout_ref.model
    meta = {
        "model": str(model.path),
        "model_hash": model_hash(model.path),
        "tokenizer_hash": tokenizer_hash(model.tokenizer_path or model.path),
        "temperature": float(rollout.temperature),
        "top_p": float(rollout.top_p),
        "seed": int(config.data.sft_seed),
        "max_response_length": int(config.data.max_response_length),
        "engine_dtype": str(config.actor_rollout_ref.actor.fsdp_config.dtype),
        "prompts": len(prompts),
        "kept": len(kept),
    }
    # train_correct loses its rows last: a run that dies in between loses no prompt, and the next one does the same again.
    Store(meta, rows).save(store_path)
    move_rows(correct, wrong, stay={row.id for row in rows})
    logger.info(
        "%s holds %d of %d near-perfect prompts (%d response tokens); the other %d moved to %s",
        store_path,
        len(rows),
        len(prompts),
        sum(len(row.response) for row in rows),
        len(prompts) - len(rows),
        wrong,
    )


def already_written(store_path: str, correct: Path) -> bool:
    """Whether the store exists and holds exactly the prompts of `correct`, as a finished run leaves them."""
    if not os.path.exists(store_path):
        return False
    ids = pq.read_table(correct, columns=["id"])["id"].to_pylist()
    return sorted(row.id for row in Store.load(store_path).rows) == sorted(ids)


def move_rows(correct: Path, wrong: Path, *, stay: set[int]) -> None:
    """Leave the rows of `stay` in `correct`, append the others to `wrong` unless they are there; each file atomically."""
    table, others = pq.read_table(correct), pq.read_table(wrong)
    there = set(others["id"].to_pylist())
    ids = table["id"].to_pylist()
    moved = table.filter(pa.array([i not in stay and i not in there for i in ids]))
    _replace(wrong, pa.concat_tables([others, moved.cast(others.schema)]))
    _replace(correct, table.filter(pa.array([i in stay for i in ids])))


def _replace(path: Path, table: pa.Table) -> None:
    aside = path.with_name(path.name + ".tmp")
    pq.write_table(table, aside)
    os.replace(aside, path)


def add_reference_log_probs(trainer, rows: list[Row]) -> None:
    """Fill `ref_log_probs` of every row from the training engine, at the training temperature, sharded over ranks."""
    for start in tqdm(range(0, len(rows), ROWS_A_CALL), desc="reference log-probs", unit="call"):
        part = rows[start : start + ROWS_A_CALL]
        for row, log_probs in zip(part, _log_probs(trainer, part), strict=True):
            row.ref_log_probs = log_probs


def _log_probs(trainer, rows: list[Row]) -> list[torch.Tensor]:
    """(R,) float32 log-probs of each row's response, by way of TransferQueue as in a training step."""
    ranks = trainer.data_parallel_size()
    padded = rows + rows[-1:] * (-len(rows) % ranks)
    keys = [f"ref{uuid.uuid4().hex}_0_0" for _ in padded]
    ones = [torch.ones(len(row.response), dtype=torch.int64) for row in padded]
    fields = {
        "input_ids": [torch.cat([row.prompt, row.response]) for row in padded],
        "position_ids": [torch.arange(len(row.prompt) + len(row.response)) for row in padded],
        "prompts": [row.prompt for row in padded],
        "responses": [row.response for row in padded],
        "response_mask": ones,
        "loss_mask": ones,
    }
    columns = {name: torch.nested.as_nested_tensor(parts, layout=torch.jagged) for name, parts in fields.items()}
    tags = [{"seq_len": len(ids)} for ids in fields["input_ids"]]
    tq.kv_batch_put(
        keys=keys, tags=tags, partition_id="train", fields=TensorDict(columns, batch_size=len(padded))
    )
    try:
        batch = KVBatchMeta(
            keys=keys,
            tags=tags,
            partition_id="train",
            fields=list(fields),
            extra_info={
                "calculate_entropy": False,
                "compute_loss": False,
                "temperature": trainer.config.actor_rollout_ref.rollout.temperature,
            },
        )
        trainer.actor_rollout_wg.compute_log_prob(batch)
        data = tq.kv_batch_get(keys=keys, partition_id="train", select_fields=["log_probs", "response_mask"])
    finally:
        tq.kv_clear(keys=keys, partition_id="train")
    return [part.float() for part in response_from_nested(data["log_probs"], data["response_mask"]).unbind()][: len(rows)]
