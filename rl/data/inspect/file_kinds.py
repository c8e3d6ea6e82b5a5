"""The kind of a file, by its content whatever its name, and reading as much of it as can be read."""

import itertools
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from rl.common.errors import UserError
from rl.data.json_text import loads_or_none
from rl.data.parquet_file import open_parquet, rows_in
from rl.data.sample_file import FORMAT as SAMPLES_FORMAT

PROMPTS, SAMPLES, STORE = "prompts", "samples", "D_pef store"

PARQUET_MAGIC = b"PAR1"
# What samples have in every format, the paper's among them.
SAMPLE_KEYS = ("id", "output", "score")
# Lines that are tried before a file is taken for something else: the first may be damaged.
_TRIED_LINES = 20
_METADATA_BYTES = 1 << 20
_SILENT_S = 2


def kind_of(path: Path) -> str:
    """PROMPTS, SAMPLES or STORE.

    Raises:
        UserError: the file cannot be read or is none of the project's.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(4)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): give an existing file.") from error
    if not head:
        raise UserError(f"{path} is empty: make it again.")
    kind = {PARQUET_MAGIC: _kind_of_parquet, b"PK\x03\x04": _kind_of_archive}.get(head, _kind_of_lines)
    return kind(path)


def is_sample(content: Any) -> bool:
    """Whether a line's JSON is a sample of any format."""
    return isinstance(content, dict) and all(key in content for key in SAMPLE_KEYS)


def _kind_of_parquet(path: Path) -> str:
    with open_parquet(path, (), "make it again") as parquet:
        columns = parquet.schema_arrow.names
    if "prompt" in columns and ("reward_model" in columns or "data_source" in columns):
        return PROMPTS
    if all(key in columns for key in SAMPLE_KEYS):
        return SAMPLES
    raise _unknown(path, f"a parquet with the columns {', '.join(columns) or 'none'}")


def _kind_of_archive(path: Path) -> str:
    try:
        names = zipfile.ZipFile(path).namelist()
    except zipfile.BadZipFile as error:
        raise UserError(f"{path} is an archive that was cut short, perhaps a D_pef store: make it again.") from error
    if any(name.endswith("/data.pkl") for name in names):
        return STORE  # or another file of torch.save, which Store.load refuses with its own message
    raise _unknown(path, "a zip archive, but not one of torch.save")


def _kind_of_lines(path: Path) -> str:
    with open(path, "rb") as file:
        lines = [loads_or_none(line) for line in itertools.islice(file, _TRIED_LINES)]
    if any(map(is_sample, lines)):
        return SAMPLES
    whole = loads_or_none(path.read_bytes()) if path.stat().st_size <= _METADATA_BYTES else None
    if isinstance(whole, dict) and whole.get("format") == SAMPLES_FORMAT:
        raise UserError(f"{path} is the metadata of a samples file: name the samples (.jsonl) beside it.")
    found = next((content for content in (*lines, whole) if isinstance(content, dict | list)), None)
    if isinstance(found, dict):
        raise _unknown(path, f"JSON with the keys {', '.join(found)[:200]}")
    raise _unknown(path, "a JSON list" if found is not None else "neither parquet, JSON lines nor a torch file")


def _unknown(path: Path, found: str) -> UserError:
    return UserError(
        f"{path} is none of the project's files ({found}): wanted is a parquet of prompts (prompt, reward_model, id, "
        "data_source), samples (JSON lines with id, output, score) or a D_pef store (.pt); the prepare_*.py of data/ "
        "make a parquet of a downloaded benchmark."
    )


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
