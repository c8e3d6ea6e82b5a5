"""The records of a published file, one by one: a JSON list, JSON lines, CSV with a header, or parquet."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from rl.common.errors import UserError
from rl.data.json_text import loads, loads_or_none
from rl.data.parquet_file import open_parquet

_PARQUET_BATCH = 4096
_HINT = "give the benchmark's file as it was published"


def read_json_list(path: Path) -> list[Any]:
    """The records of a file that is one JSON list.

    Raises:
        UserError: there is no such file, it is no JSON, or no list.
    """
    try:
        records = loads(path.read_bytes())
    except OSError as error:
        raise _unreadable(path, error) from error
    except ValueError as error:  # JSONDecodeError, UnicodeDecodeError
        raise UserError(f"{path} is no JSON ({error}): {_HINT}.") from error
    if not isinstance(records, list):
        raise UserError(f"{path} holds a JSON {_kind(records)}, not a list of records: {_HINT}.")
    return records


def read_records(path: Path, required: Sequence[str] = (), optional: Sequence[str] = ()) -> Iterator[Any]:
    """The records of a .jsonl, .json, .csv or .parquet file, in order, with a progress bar.

    Only a JSON list is read at once. A line that is no JSON is yielded as None: positions stay those of the file.

    Args:
        required: columns that a parquet must have.
        optional: columns that are read where it has them; without either, all are read.

    Raises:
        UserError: the file cannot be read, is of another kind, or lacks a column.
    """
    if path.suffix == ".parquet":
        with open_parquet(path, required, _HINT) as parquet:
            columns = [name for name in (*required, *optional) if name in parquet.schema_arrow.names] or None
            batches = parquet.iter_batches(_PARQUET_BATCH, columns=columns)
            rows = (row for batch in batches for row in batch.to_pylist())
            yield from _with_bar(rows, path, parquet.metadata.num_rows)
    elif path.suffix == ".json" and not _holds_lines(path):
        yield from _with_bar(read_json_list(path), path)
    elif path.suffix in (".jsonl", ".json", ".csv"):
        try:
            if path.suffix == ".csv":
                with open(path, encoding="utf-8-sig", newline="") as table:
                    yield from _with_bar(csv.DictReader(table), path)
                return
            with open(path, "rb") as file:
                yield from _with_bar((loads_or_none(line) for line in file if line.strip()), path)
        except OSError as error:
            raise _unreadable(path, error) from error
        except (csv.Error, UnicodeDecodeError) as error:
            raise UserError(f"{path} cannot be read ({error}): {_HINT}.") from error
    else:
        raise UserError(f"{path} is neither .jsonl, .json, .csv nor .parquet: {_HINT}.")


def _with_bar(records: Iterable[Any], path: Path, total: int | None = None) -> Iterator[Any]:
    yield from tqdm(records, desc=path.name, unit="record", total=total)


def _holds_lines(path: Path) -> bool:
    """Whether a .json file holds JSON lines, as some on the Hugging Face Hub do: its first line is an object."""
    try:
        with open(path, "rb") as file:
            return isinstance(loads_or_none(file.readline()), dict)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> UserError:
    return UserError(f"{path} cannot be read ({error.strerror}): give the benchmark's file.")


def _kind(value: Any) -> str:
    return {dict: "object", str: "text", bool: "boolean", type(None): "null"}.get(type(value), "number")
