"""Writes the D_pef store: `actor.generate_sft=True` (scripts/*/get_correct_data_tensor.sh).

Every near-perfect prompt is sampled once more. Where that sample is correct, it is kept as token ids with the
reference log-probs of the training engine, and with data.sft_top_k its likeliest next tokens at every position; the
other prompts move to train_wrong (METHOD.md, "Data", refinement). The samples are records of their own file, so that a
run that was stopped goes on where it was.
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
from omegaconf import DictConfig
from tensordict import TensorDict
from tqdm import tqdm
from transfer_queue import KVBatchMeta
from verl.workers.utils.padding import response_from_nested

from verl.dph.errors import UserError
from verl.dph.fingerprint import model_hash, tokenizer_hash
from verl.dph.pef_batch import OUR_TOP_K
from verl.dph.presample import draw_samples
from verl.dph.records import read_samples
from verl.dph.sampler import SamplingSettings
from verl.dph.store import Row, Store

logger = logging.getLogger(__name__)
logger.setLevel(os.getenv("VERL_LOGGING_LEVEL", "INFO"))

# Added to data.sft_seed, so that the refinement sample is a new one and not a sample of the pre-sampling repeated.
REFINEMENT_SEED = 1_000_003

# Rows that go through the training engine in one call; it cuts them into micro-batches itself.
ROWS_A_CALL = 256


def write_store(trainer) -> None:
    """Sample, keep the correct ones with reference log-probs, write data.sft_pt, move the other prompts.

    A store that is there already only gets its next-token distributions, where it lacks those of data.sft_top_k.

    Args:
        trainer: one of verl.dph.trainer.TRAINERS whose workers and rollout servers are up and hold the initial policy.

    Raises:
        UserError: no near-perfect prompt survives, or the scorer is not to be reached.
    """
    data = trainer.config.data
    correct, wrong = Path(data.sft_files), Path(data.sft_wrong_files)
    path = os.path.expanduser(data.sft_pt)
    origin = _origin(trainer.config)
    store = finished_store(path, correct)
    if store is None:
        store = _sampled(trainer, correct, Path(path).with_suffix(".samples.jsonl"))
        store.meta |= origin
    elif data.sft_top_k in (0, store.top_k):
        logger.info("%s already holds every prompt of %s: nothing to do (delete it to draw it anew)", path, correct)
        return
    else:
        store.check_origin(path, **{name: origin[name] for name in ("model_hash", "tokenizer_hash", "temperature")})
    add_reference_log_probs(trainer, store.rows, data.sft_top_k)
    # train_correct loses its rows last: a run that dies in between loses no prompt, and the next does the same again.
    store.save(path)
    move_rows(correct, wrong, stay={row.id for row in store.rows})
    logger.info(
        "%s holds %d of %d near-perfect prompts (%s); the other %d moved to %s",
        path,
        len(store),
        store.meta["prompts"],
        store.size(path),
        store.meta["prompts"] - len(store),
        wrong,
    )


def _sampled(trainer, correct: Path, samples: Path) -> Store:
    """One more sample of every prompt of `correct`; the correct ones as rows without reference log-probs."""
    config, rollout = trainer.config, trainer.config.actor_rollout_ref.rollout
    settings = SamplingSettings(
        n=1,
        temperature=rollout.temperature,
        top_p=rollout.top_p,
        top_k=rollout.top_k,
        max_response_length=config.data.max_response_length,
        seed=config.data.sft_seed + REFINEMENT_SEED,
    )
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
        Row(
            prompt.id,
            torch.tensor(prompt.token_ids, dtype=torch.int32),
            torch.tensor(records[prompt.id].response_ids, dtype=torch.int32),
            None,
        )
        for prompt in kept
    ]
    return Store({"prompts": len(prompts), "kept": len(kept)}, rows)


def _origin(config: DictConfig) -> dict[str, str | int | float]:
    """Whose log-probs the store holds, for its `meta`."""
    model, rollout = config.actor_rollout_ref.model, config.actor_rollout_ref.rollout
    return {
        "model": str(model.path),
        "model_hash": model_hash(model.path),
        "tokenizer_hash": tokenizer_hash(model.tokenizer_path or model.path),
        "temperature": float(rollout.temperature),
        "top_p": float(rollout.top_p),
        "seed": int(config.data.sft_seed),
        "max_response_length": int(config.data.max_response_length),
        "engine_dtype": str(config.actor_rollout_ref.actor.fsdp_config.dtype),
    }


def finished_store(path: str, correct: Path) -> Store | None:
    """The store when it exists and holds exactly the prompts of `correct`, as a finished run leaves them."""
    if not os.path.exists(path):
        return None
    store = Store.load(path)
    ids = pq.read_table(correct, columns=["id"])["id"].to_pylist()
    return store if sorted(row.id for row in store.rows) == sorted(ids) else None


def move_rows(correct: Path, wrong: Path, *, stay: set[int]) -> None:
    """Leave the rows of `stay` in `correct`, append the others to `wrong` where they lack; each file atomically."""
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


def add_reference_log_probs(trainer, rows: list[Row], top_k: int) -> None:
    """Fill in what the training engine says of every row, at the training temperature, sharded over ranks.

    That is `ref_log_probs`, and with top_k > 0 also `top_ids`, `top_log_probs` and `rest_log_prob`.
    """
    for start in tqdm(range(0, len(rows), ROWS_A_CALL), desc="reference log-probs", unit="call"):
        part = rows[start : start + ROWS_A_CALL]
        for name, values in _reference(trainer, part, top_k).items():
            for row, value in zip(part, values, strict=True):
                setattr(row, name, value)


def _reference(trainer, rows: list[Row], top_k: int) -> dict[str, list[torch.Tensor]]:
    """The fields of `rows` that the engine computes, by way of TransferQueue as in a training step."""
    ranks = trainer.data_parallel_size()
    padded = rows + rows[-1:] * (-len(rows) % ranks)
    keys = [f"ref{uuid.uuid4().hex}_0_0" for _ in padded]
    ones = [torch.ones(len(row.response), dtype=torch.int64) for row in padded]
    fields = {
        "input_ids": [torch.cat([row.prompt, row.response]).long() for row in padded],
        "position_ids": [torch.arange(len(row.prompt) + len(row.response)) for row in padded],
        "prompts": [row.prompt.long() for row in padded],
        "responses": [row.response.long() for row in padded],
        "response_mask": ones,
        "loss_mask": ones,
    }
    columns = {name: torch.nested.as_nested_tensor(parts, layout=torch.jagged) for name, parts in fields.items()}
    tags = [{"seq_len": len(ids)} for ids in fields["input_ids"]]
    tq.kv_batch_put(
        keys=keys, tags=tags, partition_id="train", fields=TensorDict(columns, batch_size=len(padded))
    )
    settings = {
        "calculate_entropy": False,
        "compute_loss": False,
        "temperature": trainer.config.actor_rollout_ref.rollout.temperature,
    }
    try:
        batch = KVBatchMeta(keys=keys, tags=tags, partition_id="train", fields=list(fields), extra_info=settings)
        if top_k:
            batch.extra_info["top_k"] = top_k
            trainer.actor_rollout_wg.compute_top_k(batch)
        else:
            trainer.actor_rollout_wg.compute_log_prob(batch)
        wanted = ["log_probs", "response_mask", *(OUR_TOP_K if top_k else [])]
        data = tq.kv_batch_get(keys=keys, partition_id="train", select_fields=wanted)
    finally:
        tq.kv_clear(keys=keys, partition_id="train")
    # A copy: what comes out are views of the prompts' log-probs too.
    responses = response_from_nested(data["log_probs"], data["response_mask"]).unbind()
    found = {"ref_log_probs": [part.to(torch.float32, copy=True) for part in responses]}
    if top_k:
        found |= {of_row: data[name].unbind() for name, of_row in OUR_TOP_K.items()}
    return {name: list(values)[: len(rows)] for name, values in found.items()}
