"""The prompts of a parquet, checked row by row and tokenized as verl's agent loop tokenizes them."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from verl.dph.errors import UserError
from verl.dph.reward.questions import scorer_question

COLUMNS = ("id", "data_source", "prompt", "reward_model")


@dataclass(frozen=True)
class Row:
    """One row of a task's parquet."""

    id: int
    data_source: str
    messages: list[dict[str, str]]  # role and content of each
    question: dict[str, str]  # what the scorer needs beside a response
    origin: str  # file and row number, for errors


@dataclass(frozen=True)
class Prompt:
    """A row with its prompt's token ids."""

    row: Row
    token_ids: array  # "i": a list of Python ints would take ten times the memory

    @property
    def id(self) -> int:
        return self.row.id


def read_rows(files: Sequence[str | Path]) -> list[Row]:
    """All rows of the files, in order.

    Raises:
        UserError: a file is missing or no parquet, a column is missing, a value is of the wrong type, or an id stands
            twice.
    """
    rows, first_origin = [], {}
    for file in files:
        for number, values in enumerate(_read_columns(Path(file))):
            row = to_row(values, f"{file} row {number}")
            if row.id in first_origin:
                raise UserError(f"{row.origin}: id {row.id} stands also in {first_origin[row.id]}; ids must be unique.")
            first_origin[row.id] = row.origin
            rows.append(row)
    if not rows:
        raise UserError(
            f"{', '.join(map(str, files)) or 'The list of data files'} holds no row: give a parquet with rows."
        )
    return rows


def tokenize(rows: Sequence[Row], builder: Any) -> Iterator[Prompt]:
    """The rows' prompts as verl's single-turn agent loop sends them to the rollout server.

    Args:
        builder: verl's continuous token builder of this tokenizer and model type.
    """
    for row in rows:
        yield Prompt(row, array("i", builder.build_initial_tokens(row.messages)))


def split_overlong(prompts: Iterator[Prompt], max_prompt_length: int) -> tuple[list[Prompt], list[Prompt]]:
    """(those that fit, those longer than max_prompt_length tokens)"""
    fitting, overlong = [], []
    for prompt in prompts:
        (fitting if len(prompt.token_ids) <= max_prompt_length else overlong).append(prompt)
    return fitting, overlong


def _read_columns(file: Path) -> Iterator[dict[str, Any]]:
    try:
        parquet = pq.ParquetFile(file)
    except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
        raise UserError(
            f"{file} cannot be read as parquet ({str(error).splitlines()[0]}): give an existing parquet."
        ) from error
    with parquet:
        missing = [name for name in COLUMNS if name not in parquet.schema_arrow.names]
        if missing:
            raise UserError(f"{file} has no column {', '.join(missing)}: make it with the project's data scripts.")
        for batch in parquet.iter_batches(batch_size=256, columns=list(COLUMNS)):
            yield from batch.to_pylist()


def to_row(values: dict[str, Any], origin: str) -> Row:
    """The row that the COLUMNS of a parquet hold.

    Raises:
        UserError: a value is of the wrong type; the sentence begins with `origin`.
    """
    _require(isinstance(values["id"], int), origin, "id", values["id"], "a whole number")
    _require(isinstance(values["data_source"], str), origin, "data_source", values["data_source"], "a text")
    messages = values["prompt"]
    _require(isinstance(messages, list) and len(messages) > 0, origin, "prompt", messages, "a list of messages")
    for message in messages:
        whole = isinstance(message, Mapping) and all(isinstance(message.get(key), str) for key in ("role", "content"))
        _require(whole, origin, "prompt", message, "a message with the texts role and content")
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
        raise UserError(f"{origin}: {key} is {str(found)[:80]!r}, not {expected}; mend the row or make the file anew.")
