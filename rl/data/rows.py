"""The prompts of parquet files, checked row by row and tokenized as in verl's agent loop."""

import os
from array import array
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pyarrow.parquet import ParquetFile
from tqdm import tqdm

from rl.common.errors import UserError
from rl.common.parquet_file import open_parquet, rows_in
from rl.data.questions import scorer_question

COLUMNS = ("id", "data_source", "prompt", "reward_model")
# Those of a file without ground truth, whose responses cannot be judged.
PROMPT_COLUMNS = ("id", "prompt")
SAMPLES = "__rollout_n__"  # verl's column with a prompt's own number of samples
BAR_DELAY_S = 3.0  # shorter work shows no progress bar
_HINT = "make it with dph prepare"


@dataclass(frozen=True)
class Row:
    """One row of a task's parquet."""

    id: int
    data_source: str
    messages: list[dict[str, str]]  # role and content of each
    question: Any  # dict[str, str]: what the scorer needs to score a response; None without ground truth
    origin: str  # file and row number, for errors


@dataclass(frozen=True)
class Prompt:
    """A row with its prompt's token ids, computed on first use."""

    row: Row
    builder: Any = field(repr=False)  # verl's continuous token builder

    @property
    def id(self) -> int:
        return self.row.id

    @cached_property
    def token_ids(self) -> array:
        """The token ids that verl's single-turn agent loop sends to the rollout server."""
        from jinja2 import TemplateError

        try:
            return array("i", self.builder.build_initial_tokens(self.row.messages))
        except TemplateError as error:
            raise UserError(
                f"{self.row.origin}: the model's chat template rejects the prompt ({error}): write its messages as the "
                "template wants them, such as the system prompt at the head of the user's message."
            ) from error


class PromptFiles:
    """Iterates over the prompts of parquet files that are short enough, in order, and reads the files each time.

    All rows are read and checked once at the start, and only the ids stay in memory.

    Args:
        files: parquet files in the row format.
        builder: verl's continuous token builder of the tokenizer and model type.
        max_prompt_length: in tokens; longer prompts are left out.
        unjudged: see iterate_rows.

    Attributes:
        rows: number of rows, including those left out.
        judged: whether the rows have ground truth.
        overlong: the number of tokens of each prompt that is left out, by its id.
    """

    def __init__(self, files: Sequence[str | Path], builder: Any, max_prompt_length: int, *, unjudged: bool = False):
        self._files, self._builder = [Path(file) for file in files], builder
        self._stamps = [_stamp(file) for file in self._files]
        self.rows, self.judged = 0, True
        self.overlong: dict[int, int] = {}
        for row in iterate_rows(files, progress="reading prompts", unjudged=unjudged):
            self.rows += 1
            self.judged = row.question is not None
            tokens = len(Prompt(row, builder).token_ids)
            if tokens > max_prompt_length:
                self.overlong[row.id] = tokens

    def __len__(self) -> int:
        return self.rows - len(self.overlong)

    def __iter__(self) -> Iterator[Prompt]:
        for file, stamp in zip(self._files, self._stamps, strict=True):
            if _stamp(file) != stamp:
                raise UserError(f"{file} changed during sampling: run again.")
            for row in _rows_of(file):
                if row.id not in self.overlong:
                    yield Prompt(row, self._builder)


def read_rows(files: Sequence[str | Path]) -> list[Row]:
    """All rows of the files, in order."""
    return list(iterate_rows(files))


def iterate_rows(files: Sequence[str | Path], progress: str | None = None, *, unjudged: bool = False) -> Iterator[Row]:
    """The rows of the files, in order, one at a time.

    Args:
        progress: label of the progress bar; None for no bar.
        unjudged: whether the files may be without ground truth, with PROMPT_COLUMNS alone.

    Raises:
        UserError: a file is missing or is not a parquet, a column is missing, a value has the wrong type, two rows
            have the same id, or some files have ground truth and others have none.
    """
    seen: set[int] = set()
    total, with_truth = 0, set()
    for file in files:  # report a file that is not a parquet before reading any
        with open_parquet(Path(file), PROMPT_COLUMNS, _HINT) as parquet:
            total += parquet.metadata.num_rows
            columns = _columns_of(parquet) if unjudged else COLUMNS
        with open_parquet(Path(file), columns, _HINT):
            with_truth.add(columns == COLUMNS)
    if len(with_truth) > 1:
        raise UserError(
            f"Some of {', '.join(map(str, files))} have the columns data_source and reward_model, and others have "
            "neither: sample files with and without ground truth separately."
        )
    with tqdm(desc=progress, total=total, unit="row", delay=BAR_DELAY_S, disable=progress is None) as bar:
        for file in files:
            for row in _rows_of(Path(file)):
                if row.id in seen:
                    first = next(other for name in files for other in _rows_of(Path(name)) if other.id == row.id)
                    raise UserError(f"{row.origin}: id {row.id} is also in {first.origin}; ids must be unique.")
                seen.add(row.id)
                bar.update()
                yield row
    if not seen:
        raise UserError(
            f"{', '.join(map(str, files)) or 'The list of data files'} holds no row: give a parquet with rows."
        )


def _rows_of(file: Path) -> Iterator[Row]:
    with open_parquet(file, PROMPT_COLUMNS, _HINT) as parquet:
        columns = _columns_of(parquet)
        for number, values in enumerate(rows_in(parquet, columns)):
            yield to_row(values, f"{file} row {number}")


def _columns_of(parquet: ParquetFile) -> tuple[str, ...]:
    """COLUMNS, or PROMPT_COLUMNS of a file that has neither data_source nor reward_model."""
    return COLUMNS if {"data_source", "reward_model"} & {*parquet.schema_arrow.names} else PROMPT_COLUMNS


def _stamp(file: Path) -> tuple[int, ...] | None:
    """Identity of a file's content; None if it does not exist."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def ids_of(files: Sequence[Path]) -> set[int | str]:
    """The ids of the files' rows."""
    found: set[int | str] = set()
    for file in files:
        with open_parquet(file, ["id"], _HINT) as parquet:
            found.update(parquet.read(["id"])["id"].to_pylist())
    return found


def rows_with(ids: Container[int | str], files: Sequence[str | Path]) -> Iterator[Row]:
    """The rows of the files with these ids, in order."""
    return (row for file in files for row in _rows_of(Path(file)) if row.id in ids)


def to_row(values: dict[str, Any], origin: str) -> Row:
    """Make a row from the COLUMNS of a parquet, or from its PROMPT_COLUMNS.

    Raises:
        UserError: a value has the wrong type; the sentence begins with `origin`.
    """
    _require(isinstance(values["id"], int), origin, "id", values["id"], "a whole number")
    messages = values["prompt"]
    _require(isinstance(messages, list) and len(messages) > 0, origin, "prompt", messages, "a list of messages")
    for message in messages:
        whole = isinstance(message, Mapping) and all(isinstance(message.get(key), str) for key in ("role", "content"))
        _require(whole, origin, "prompt", message, "a message with the texts role and content")
    if "reward_model" not in values:
        return Row(values["id"], "", messages, None, origin)
    _require(isinstance(values["data_source"], str), origin, "data_source", values["data_source"], "a text")
    reward_model = values["reward_model"]
    has_truth = isinstance(reward_model, Mapping) and reward_model.get("ground_truth") is not None
    _require(has_truth, origin, "reward_model", reward_model, "an object with a ground_truth")
    try:
        question = scorer_question(values["data_source"], reward_model["ground_truth"])
    except UserError as error:
        raise UserError(f"{origin}: {error}") from error
    return Row(values["id"], values["data_source"], messages, question, origin)


def _require(holds: bool, origin: str, key: str, found: Any, expected: str) -> None:
    if not holds:
        raise UserError(
            f"{origin}: {key} is {str(found)[:80]!r}, not {expected}; correct the row or make the file again."
        )
