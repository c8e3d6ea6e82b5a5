"""Read parquet files, with errors that say what to do."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rl.common.errors import UserError

# Rows and bytes per read, so that memory does not grow with the file: a prompt may have 60 KB, and without a buffer
# Arrow reads a whole column chunk at once.
BATCH_ROWS = 64
_BUFFER_BYTES = 1 << 20


@contextmanager
def open_parquet(path: Path, columns: Sequence[str], hint: str) -> Iterator[pq.ParquetFile]:
    """Open the file; Arrow's read errors inside the block become UserErrors too.

    Args:
        columns: the columns that the file must have.
        hint: the error's advice for a file of another kind.
    """
    try:
        with pq.ParquetFile(path, buffer_size=_BUFFER_BYTES) as parquet:
            missing = [name for name in columns if name not in parquet.schema_arrow.names]
            if missing:
                raise UserError(f"{path} has no column {', '.join(missing)}: {hint}.")
            yield parquet
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist: {hint}.") from error
    except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
        raise UserError(f"{path} cannot be read as parquet ({str(error).splitlines()[0]}): {hint}.") from error


def rows_in(
    parquet: pq.ParquetFile, columns: Sequence[str] = (), batch_rows: int = BATCH_ROWS
) -> Iterator[dict[str, Any]]:
    """Yield the rows one at a time, with all columns if none are named."""
    for batch in parquet.iter_batches(batch_rows, columns=list(columns) or None):
        yield from batch.to_pylist()
