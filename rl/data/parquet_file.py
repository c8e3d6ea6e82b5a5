"""Reading parquet files, with errors that say what to do."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from rl.common.errors import UserError


@contextmanager
def open_parquet(path: Path, columns: Sequence[str], hint: str, buffer_size: int = 0) -> Iterator[pq.ParquetFile]:
    """The open file; what Arrow cannot read inside the block is a UserError, too.

    Args:
        columns: that the file must have.
        hint: what to do if it is not such a file.

    Raises:
        UserError: the file cannot be read as parquet, or a column is missing.
    """
    try:
        with pq.ParquetFile(path, buffer_size=buffer_size) as parquet:
            missing = [name for name in columns if name not in parquet.schema_arrow.names]
            if missing:
                raise UserError(f"{path} has no column {', '.join(missing)}: {hint}.")
            yield parquet
    except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
        raise UserError(f"{path} cannot be read as parquet ({str(error).splitlines()[0]}): {hint}.") from error
