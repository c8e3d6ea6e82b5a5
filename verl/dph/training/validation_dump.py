"""What verl's dumps of a validation (trainer.validation_data_dir) lack to be samples that can be compared.

`dph compare` reads them (rl/evaluation/validation_samples.py).
"""

from typing import Any

import torch
import transfer_queue as tq
from transfer_queue import KVBatchMeta

Described = dict[str, Any]  # of a response: id of its prompt, data_source, response_ids


def describe(batch: KVBatchMeta) -> dict[str, Described]:
    """By key, of the responses of a validation; to be called before verl takes them out of TransferQueue."""
    fields = ["id", "data_source", "responses"]
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
    # Arrays, until verl writes them: as lists of Python's numbers a large validation would take gigabytes.
    responses = [row.to(torch.int32).numpy() for row in data["responses"].unbind()]
    columns = (map(int, data["id"]), data["data_source"], responses)
    return {
        key: {"id": id, "data_source": source, "response_ids": ids}
        for key, id, source, ids in zip(batch.keys, *columns, strict=True)
    }


def with_columns(infos: dict[str, list], described: dict[str, Described]) -> dict[str, list]:
    """The columns of a dump and those of its responses, which infos["uid"] names by their keys."""
    of_rows = [described[key] for key in infos["uid"]]
    return infos | {name: [row[name] for row in of_rows] for name in ("id", "data_source", "response_ids")}
