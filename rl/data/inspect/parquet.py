"""Reading a parquet in batches: memory does not grow with the file."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tqdm import tqdm

_ROWS_PER_BATCH = 256
# Without it Arrow reads a whole column chunk at once.
_READ_BYTES = 1 << 20
_SILENT_S = 2


def parquet_rows(path: Path, columns: Sequence[str], problems: list[str]) -> Iterator[dict[str, Any]]:
    """The rows that can be read; where the file is damaged it ends, with a sentence in `problems`."""
    number = 0
    with (
        pq.ParquetFile(path, buffer_size=_READ_BYTES) as parquet,
        progress(parquet.metadata.num_rows, path, "row") as bar,
    ):
        try:
            for batch in parquet.iter_batches(batch_size=_ROWS_PER_BATCH, columns=list(columns)):
                yield from batch.to_pylist()
                number += batch.num_rows
                bar.update(batch.num_rows)
        except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
            total = parquet.metadata.num_rows
            problems.append(f"Rows {number} to {total - 1} cannot be read ({str(error).splitlines()[0]}).")


def progress(total: int, path: Path, unit: str) -> tqdm:
    """A bar on a terminal, when it takes long."""
    scale = unit == "B"
    return tqdm(total=total, desc=path.name, unit=unit, unit_scale=scale, disable=None, delay=_SILENT_S, leave=False)
