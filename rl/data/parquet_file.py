"""Opening parquet files, with errors that say what to do."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from rl.common.errors import UserError


def open_parquet(path: Path, columns: Sequence[str], hint: str, buffer_size: int = 0) -> pq.ParquetFile:
    """
    Args:
        columns: that the file must have.
        hint: what to do if it is not such a file.

    Raises:
        UserError: the file cannot be read as parquet, or a column is missing.
    """
    try:
        parquet = pq.ParquetFile(path, buffer_size=buffer_size)
    except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
        raise UserError(f"{path} cannot be read as parquet ({str(error).splitlines()[0]}): {hint}.") from error
    missing = [name for name in columns if name not in parquet.schema_arrow.names]
    if missing:
        parquet.close()
        raise UserError(f"{path} has no column {', '.join(missing)}: {hint}.")
    return parquet
