"""Reading as much of a file as can be read, with a progress bar."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from rl.data.parquet_file import open_parquet, rows_in

_SILENT_S = 2


def parquet_rows(path: Path, columns: Sequence[str], problems: list[str]) -> Iterator[dict[str, Any]]:
    """The rows that can be read; where the file is damaged it ends, with a sentence in `problems`."""
    number = 0
    with open_parquet(path, (), "make it again") as parquet, progress(parquet.metadata.num_rows, path, "row") as bar:
        try:
            for row in rows_in(parquet, columns):
                number += 1
                yield row
                bar.update()
        except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
            total = parquet.metadata.num_rows
            problems.append(f"Rows {number} to {total - 1} cannot be read ({str(error).splitlines()[0]}).")


def progress(total: int, path: Path, unit: str) -> tqdm:
    """A bar on a terminal, when it takes long."""
    scale = unit == "B"
    return tqdm(total=total, desc=path.name, unit=unit, unit_scale=scale, disable=None, delay=_SILENT_S, leave=False)
