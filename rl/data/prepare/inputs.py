"""The records of a published file, one by one: a JSON list, JSON lines or parquet."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rl.common.errors import UserError
from rl.data.parquet_file import open_parquet

_PARQUET_BATCH = 4096
_HINT = "give the benchmark's file"


def read_json_list(path: Path) -> list[Any]:
    """The records of a file that is one JSON list.

    Raises:
        UserError: there is no such file, it is no JSON, or no list.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            records = json.load(file)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): give the benchmark's file.") from error
    except ValueError as error:  # JSONDecodeError, UnicodeDecodeError
        raise UserError(f"{path} is no JSON ({error}): give the benchmark's file as it was published.") from error
    if not isinstance(records, list):
        raise UserError(f"{path} holds a JSON {_kind(records)}, not a list of records: give the benchmark's file.")
    return records


def count_records(path: Path) -> int:
    """How many records read_records yields, without decoding them.

    Raises:
        UserError: the file cannot be read.
    """
    if path.suffix == ".parquet":
        with open_parquet(path, (), _HINT) as parquet:
            return parquet.metadata.num_rows
    if path.suffix == ".json":
        return len(read_json_list(path))
    try:
        with open(path, "rb") as file:
            return sum(1 for line in file if line.strip())
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): give an existing file.") from error


def read_records(path: Path, required: Sequence[str] = (), optional: Sequence[str] = ()) -> Iterator[Any]:
    """The records of a .jsonl, .json or .parquet file, in order; memory does not grow with a .jsonl or .parquet file.

    A line that is no JSON is yielded as None, so that positions stay those of the file.

    Args:
        required: columns that a parquet must have.
        optional: columns that are read where it has them; without either, all are read.

    Raises:
        UserError: the file cannot be read, is of another kind, or lacks a column.
    """
    if path.suffix == ".parquet":
        yield from _read_parquet(path, required, optional)
    elif path.suffix == ".json":
        yield from read_json_list(path)
    elif path.suffix == ".jsonl":
        yield from _read_lines(path)
    else:
        raise UserError(f"{path} is neither .jsonl, .json nor .parquet: give the benchmark's file.")


def _read_lines(path: Path) -> Iterator[Any]:
    try:
        with open(path, "rb") as file:
            for line in file:
                if not line.strip():
                    continue
                try:
                    yield json.loads(line.decode("utf-8-sig"))
                except ValueError:
                    yield None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): give an existing file.") from error


def _read_parquet(path: Path, required: Sequence[str], optional: Sequence[str]) -> Iterator[dict[str, Any]]:
    with open_parquet(path, required, _HINT) as parquet:
        columns = [name for name in (*required, *optional) if name in parquet.schema_arrow.names] or None
        try:
            for batch in parquet.iter_batches(_PARQUET_BATCH, columns=columns):
                yield from batch.to_pylist()
        except (OSError, ValueError) as error:  # a file that is cut off or damaged behind its footer
            raise UserError(f"{path} is damaged ({str(error).splitlines()[0]}): fetch it again.") from error


def _kind(value: Any) -> str:
    return {dict: "object", str: "text", bool: "boolean", type(None): "null"}.get(type(value), "number")
