"""Published files, on a disk or in the Hugging Face Hub's cache (HF_HOME), and their records, one by one.

A file is a JSON list, JSON lines, or parquet.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from rl.common.errors import UserError, file_errors
from rl.common.parquet_file import open_parquet, rows_in
from rl.data.benchmarks import HubFile
from rl.data.json_text import loads_or_none

_PARQUET_BATCH = 4096
_HINT = "give the benchmark's file, or one of your own in its layout"


@dataclass(frozen=True)
class Input:
    """A file that rows are made from; a downloaded file has its repository and commit."""

    path: Path
    repository: str | None = None
    commit: str | None = None


def download(wanted: Mapping[str, HubFile]) -> dict[str, Input]:
    """Download the files that the cache lacks; {name of the data set: file}."""
    import httpx
    from huggingface_hub import hf_hub_url
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return {name: _fetch(hub) for name, hub in wanted.items()}
    except (OSError, HfHubHTTPError, httpx.HTTPError) as error:  # offline mode is an OSError
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        urls = {
            name: hf_hub_url(hub.repository, hub.file, repo_type="dataset", revision=hub.revision)
            for name, hub in wanted.items()
        }
        raise UserError(
            f"The Hugging Face Hub cannot be used ({reason}): download {', '.join(urls.values())} elsewhere, name "
            f"each after its data set ({', '.join(urls)}), and pass the file or its folder with --input."
        ) from error


def _fetch(hub: HubFile) -> Input:
    from huggingface_hub import hf_hub_download

    path = Path(hf_hub_download(hub.repository, hub.file, repo_type="dataset", revision=hub.revision))
    snapshot = path.parents[len(Path(hub.file).parts) - 1]  # the cache's folder of the commit
    return Input(path, hub.repository, snapshot.name)


@dataclass(frozen=True)
class Record:
    """One record of the input files.

    Attributes:
        number: the number for the row's id; before the row is made, any value from the file.
        position: the position in its file, from 0.
        corrected: the file that corrects this record, if any.
    """

    number: Any
    file: Path
    position: int
    values: Any
    corrected: Path | None = None


def read_json_list(path: Path) -> list[Any]:
    """The records of a file that is one JSON list."""
    with file_errors(path, "read", _HINT):
        records = loads_or_none(path.read_bytes())
    if not isinstance(records, list):
        raise UserError(f"{path} is not a JSON list of records: {_HINT}.")
    return records


def read_records(path: Path, required: Sequence[str] = (), optional: Sequence[str] = ()) -> Iterator[Any]:
    """The records of a .jsonl, .json or .parquet file, in order, with a progress bar.

    Only a JSON list is read at once. A line that is not JSON is yielded as None, so that positions match the file.

    Args:
        required: columns that a parquet must have.
        optional: columns that are read if it has them; without required and optional, all columns are read.
    """
    bar = {"desc": path.name, "unit": "record"}
    if path.suffix == ".parquet":
        with open_parquet(path, required, _HINT) as parquet:
            columns = [name for name in (*required, *optional) if name in parquet.schema_arrow.names]
            yield from tqdm(rows_in(parquet, columns, _PARQUET_BATCH), total=parquet.metadata.num_rows, **bar)
        return
    with file_errors(path, "read", _HINT), open(path, "rb") as file:
        # Some .json files on the Hugging Face Hub hold JSON lines, so that the first line is an object.
        if path.suffix == ".json" and not isinstance(loads_or_none(file.readline()), dict):
            yield from tqdm(read_json_list(path), **bar)
            return
        file.seek(0)
        yield from tqdm((loads_or_none(line) for line in file if line.strip()), **bar)
