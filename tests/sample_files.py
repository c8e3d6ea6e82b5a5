"""Prompts, and samples files that the project's own writer makes, for the tests of what reads them."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rl.common.fingerprint import file_sha256
from rl.data.sample_file import SampleMetadata, SampleRecord, SampleWriter

N = 4


def math_row(id: int, /, text: str | None = None, **changes) -> dict:
    return {
        "id": id,
        "data_source": "math500",
        "prompt": [{"role": "user", "content": text or f"question {id}"}],
        "reward_model": {"style": "rule", "ground_truth": str(id)},
    } | changes


def write_parquet(path: Path, *rows: dict) -> Path:
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path


def metadata(**changes) -> SampleMetadata:
    """The metadata of N samples of one prompt."""
    values = {
        "model": "/models/base",
        "model_hash": "mh",
        "tokenizer_hash": "th",
        "temperature": 1.0,
        "top_p": 0.95,
        "top_k": -1,
        "n": N,
        "seed": 7,
        "max_response_length": 8,
        "data_files": {"f": "h"},
        "rows": 1,
        "overlong_ids": [],
        "chat_template": "{}",
        "engine": "hf float32",
        "config_hash": "ch",
    }
    return SampleMetadata(**values | changes)


def metadata_of(data: Path, **changes) -> SampleMetadata:
    """The metadata of N samples of each row of a parquet."""
    return metadata(**{"data_files": {str(data): file_sha256(data)}, "rows": pq.read_metadata(data).num_rows} | changes)


def record(id: int, sample: int, acc: int, **changes) -> SampleRecord:
    values = {
        "id": id,
        "sample": sample,
        "input": f"<user>question {id}<answer>",
        "output": "right" if acc else "wrong!",
        "response_ids": [5] * (2 + sample),
        "score": float(acc),
        "acc": acc,
        "pred": str(id),
        "outcome": "match" if acc else "mismatch",
        "data_source": "math500",
        "truncated": False,
    }
    return SampleRecord(**values | changes)


def write_samples(path: Path, data: Path, samples: Iterable[SampleRecord] | Mapping[int, list[int]], **changes) -> Path:
    """
    Args:
        samples: records, or for each id the acc of each of its samples.
        changes: of the metadata.
    """
    if isinstance(samples, Mapping):
        samples = [record(id, number, acc) for id, accs in samples.items() for number, acc in enumerate(accs)]
    path.parent.mkdir(parents=True, exist_ok=True)
    with SampleWriter(path, metadata_of(data, **changes)) as writer:
        for sample in samples:
            writer.append(sample)
    return path
