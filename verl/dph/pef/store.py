"""The D_pef store: one or several correct responses per prompt, as token ids with the initial policy's log-probs.

A `.pt` file of plain tensors, lists and numbers, readable with torch.load(weights_only=True). Token sequences are
concatenated in one tensor, with their lengths in another; nothing is tokenised again. Rows with the same id are
responses to one prompt, which the file holds once.

The file is memory-mapped, and rows are views of it in its dtypes: a page is in memory at most once, and only after a
training step has used it.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from rl.common import atomic_write
from rl.common.errors import UserError
from rl.common.fingerprint import short
from rl.common.text import in_bytes

FORMAT = "dph-store/1"

# Fields with a value per response token: their name and dtype in the file.
_RESPONSE_FIELDS = {"response": ("responses", torch.int32), "ref_log_probs": ("ref_log_probs", torch.float32)}
# Keys of `Store.meta` that log-probs and prompts depend on, and their names in messages.
_ORIGIN = {
    "model_hash": "model",
    "tokenizer_hash": "tokenizer",
    "config_hash": "config.json or generation_config.json",
    "temperature": "temperature",
    "engine_dtype": "engine dtype",
    "chat_template": "chat template (data.apply_chat_template_kwargs or model.custom_chat_template)",
    "override_config": "config.json (model.override_config)",
}

WRITE_AGAIN = "write it again with dph store"
# How to write a store anew under its name.
DELETE = "delete it, and the .samples.jsonl beside it if there is one"


@dataclass(slots=True)
class Row:
    """A response and its prompt: P prompt tokens, R response tokens.

    A row read from a file has these dtypes; a row that is not written yet may have wider ones.

    Attributes:
        id: of the prompt; rows that share it are responses to the same prompt.
        prompt, response: (P,) and (R,) int32 token ids.
        ref_log_probs: (R,) float32, nats, of the response's tokens. None until the training engine has computed it.
    """

    id: int | str
    prompt: torch.Tensor
    response: torch.Tensor
    ref_log_probs: torch.Tensor | None


@dataclass
class Store:
    """D_pef in memory.

    Attributes:
        meta: the rows' origin (pef/origin.py) and source (pef/row_sources.py), the number of prompts (prompts), and how
            many of them have a row (kept).
        rows: in the order of the file.
    """

    meta: dict[str, str | int | float | None]
    rows: list[Row] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def num_tokens(self) -> int:
        """Response tokens of all rows."""
        return sum(len(row.response) for row in self.rows)

    def save(self, path: str) -> None:
        """Write the file atomically.

        The rows become views of the written tensors, so that nothing is in memory twice.

        Raises:
            UserError: the file cannot be written.
        """
        first_of: dict[int | str, Row] = {}
        for row in self.rows:
            tokens, log_probs = len(row.response), 0 if row.ref_log_probs is None else len(row.ref_log_probs)
            if tokens != log_probs or not tokens:
                raise ValueError(f"row {row.id}: {tokens} response tokens, {log_probs} log-probs")
            if not torch.equal(first_of.setdefault(row.id, row).prompt, row.prompt):
                raise ValueError(f"row {row.id}: two prompts with one id")
        prompts = list(first_of.values())
        content = {
            "format": FORMAT,
            "meta": dict(self.meta, rows=len(self), response_tokens=self.num_tokens),
            "ids": [row.id for row in self.rows],
            "prompt_lengths": torch.tensor([len(row.prompt) for row in prompts], dtype=torch.int64),
            "response_lengths": torch.tensor([len(row.response) for row in self.rows], dtype=torch.int64),
            "prompts": _joined(prompts, "prompt", torch.int32),
        }
        for row in self.rows:
            row.prompt = first_of[row.id].prompt
        for name, (stored_as, dtype) in _RESPONSE_FIELDS.items():
            content[stored_as] = _joined(self.rows, name, dtype)
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        try:
            with atomic_write.replacing(path) as temporary:
                torch.save(content, temporary)
        except (OSError, RuntimeError) as error:  # torch turns a failed write into a RuntimeError
            reason = str(error).splitlines()[0]
            raise UserError(
                f"D_pef store {path} cannot be written ({reason}): make room and re-run the same command."
            ) from error

    @classmethod
    def load(cls, path: str) -> "Store":
        """Map a store's file.

        Raises:
            UserError: when the file is not one, is cut short, or its parts do not fit together.
        """
        try:
            content = torch.load(path, weights_only=True, map_location="cpu", mmap=True)
        except FileNotFoundError:
            raise UserError(f"D_pef store {path} does not exist: {WRITE_AGAIN}.") from None
        except Exception as error:  # torch raises a dozen types for a file that is not its own
            raise UserError(
                f"D_pef store {path} cannot be read ({type(error).__name__}; it must hold plain tensors, no pickled "
                f"objects): {WRITE_AGAIN}."
            ) from error
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        if found != FORMAT:
            raise UserError(
                f"{path} is not a D_pef store of this version (format {found!r}, wanted {FORMAT!r}): {WRITE_AGAIN}."
            )
        try:
            ids, lengths = content["ids"], content["response_lengths"].tolist()
            prompts = content["prompts"].split(content["prompt_lengths"].tolist())
            if len(prompts) < len(ids):
                prompt_of = dict(zip(dict.fromkeys(ids), prompts, strict=True))
                prompts = [prompt_of[id] for id in ids]
            columns = [content[stored_as].split(lengths) for stored_as, _ in _RESPONSE_FIELDS.values()]
            rows = [Row(*parts) for parts in zip(ids, prompts, *columns, strict=True)]
            meta = content["meta"]
        # A field is missing or of another type, or the lengths are of other tensors.
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"D_pef store {path} does not fit together ({reason}): {WRITE_AGAIN}.") from error
        return cls(meta, rows)

    def size(self, path: str | os.PathLike) -> str:
        """The size of the file at `path` in words: tokens and megabytes."""
        return f"{self.num_tokens:,} response tokens, {in_bytes(os.path.getsize(path))}"

    def check_origin(
        self, path: str | os.PathLike, expected: Mapping[str, str | float], remedy: str = WRITE_AGAIN
    ) -> None:
        """Reject a store whose reference log-probs or prompts are not those of this run.

        Args:
            path: the file, for the message.
            expected: this run's values by their key in `meta` (origin.origin_of); the keys of _ORIGIN are compared.
            remedy: what to do about it, for the message.
        """
        unrecorded = {"override_config": "{}", "config_hash": expected.get("config_hash")}  # of older stores
        for name, what in _ORIGIN.items():
            recorded = self.meta.get(name, unrecorded.get(name))
            if name in expected and recorded != expected[name]:
                raise UserError(
                    f"D_pef store {path} was made with another {what} ({short(recorded)}, from "
                    f"{self.meta.get('model')}) than this run's ({short(expected[name])}): its reference log-probs do "
                    f"not hold here, {remedy}."
                )

    def fingerprint(self) -> str:
        """sha256 of the ids and tokens of the rows in their order, hexadecimal."""
        return rows_digest(self.rows).hexdigest()


def _joined(rows: list[Row], name: str, dtype: torch.dtype) -> torch.Tensor:
    """One field of the rows, concatenated; the rows' tensors become views of it."""
    parts = [getattr(row, name) for row in rows]
    if not parts:
        return torch.empty(0, dtype=dtype)
    joined = torch.cat([part.to(dtype) for part in parts])
    for row, view in zip(rows, joined.split([len(part) for part in parts]), strict=True):
        setattr(row, name, view)
    return joined


def rows_digest(rows: list[Row]) -> "hashlib._Hash":
    """sha256 of the ids, prompts and responses of rows; the caller may add to it."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(f"{row.id} {len(row.prompt)} {len(row.response)} ".encode())
        digest.update(row.prompt.to(torch.int32).numpy().tobytes())
        digest.update(row.response.to(torch.int32).numpy().tobytes())
    return digest
