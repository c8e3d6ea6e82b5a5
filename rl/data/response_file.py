"""Responses from elsewhere (experts, curated data, other models): a parquet or JSON lines, for the D_pef store.

A row has `response`, a text, and either `id`, the id of a row in the prompts' parquet, or `prompt`, that row's messages
or the text of the last one. `source` is optional.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl.common.errors import UserError, file_errors
from rl.common.parquet_file import open_parquet, rows_in
from rl.data.json_text import loads_or_none
from rl.data.rows import Row

_HINT = "it needs response, and id or prompt"


@dataclass(frozen=True)
class GivenResponse:
    """One row of the file."""

    prompt: int | str  # one of prompt_names
    response: str
    source: str | None


def read_responses(path: Path) -> Iterator[GivenResponse]:
    """The rows of the file, in order."""
    rows = _parquet_rows(path) if path.suffix == ".parquet" else _json_rows(path)
    for number, row in enumerate(rows, start=1):
        yield _response(row, f"{path} row {number}")


def prompt_names(row: Row) -> tuple[int | str, ...]:
    """The names by which a response may refer to a prompt: its id, its messages, and the text of the last message."""
    return row.id, _messages(row.messages), row.messages[-1]["content"]


def _parquet_rows(path: Path) -> Iterator[Any]:
    with open_parquet(path, ["response"], _HINT) as parquet:
        yield from rows_in(parquet)


def _json_rows(path: Path) -> Iterator[Any]:
    with file_errors(path, "read"), open(path, "rb") as file:
        yield from (loads_or_none(line) for line in file if line.strip())


def _response(row: Any, origin: str) -> GivenResponse:
    if not isinstance(row, dict):
        raise UserError(f"{origin} is not a JSON object: give a .parquet, or one JSON object per line, in UTF-8.")
    response, id, prompt, source = (row.get(name) for name in ("response", "id", "prompt", "source"))
    if not isinstance(response, str) or not response:
        raise UserError(f"{origin}: response is {str(response)[:80]!r}, not a text: {_HINT}.")
    if isinstance(prompt, list) and all(isinstance(message, dict) for message in prompt):
        prompt = _messages(prompt)
    name = prompt if id is None else id
    if not isinstance(name, int | str) or (id is not None and type(id) is not int):  # True is an int
        raise UserError(f"{origin}: id is {str(id)[:80]!r} and prompt {str(prompt)[:80]!r}: {_HINT}.")
    return GivenResponse(name, response, None if source is None else str(source))


def _messages(messages: list[dict]) -> str:
    return json.dumps([[message.get("role"), message.get("content")] for message in messages])
