"""The D_pef store: one or several correct responses per prompt, as token ids with the initial policy's log-probs.

A `.pt` file of plain tensors, lists and numbers, readable with torch.load(weights_only=True). Token sequences are
concatenated in one tensor, with their lengths in another; nothing is tokenised again. Rows with the same id are
responses to one prompt, which the file holds once. With data.sft_top_k it also holds the reference's k most probable
next tokens at every response position.

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

# Fields with a value per response token: their name and dtype in the file. A file has all of the last three or none.
_RESPONSE_FIELDS = {
    "response": ("responses", torch.int32),
    "ref_log_probs": ("ref_log_probs", torch.float32),
    "top_ids": ("top_ids", torch.int32),
    "top_log_probs": ("top_log_probs", torch.float16),
    "rest_log_prob": ("rest_log_probs", torch.float16),
}
_TOP_FIELDS = ("top_ids", "top_log_probs", "rest_log_prob")
# Keys of `Store.meta` that log-probs and prompts depend on, and their names in messages.
_ORIGIN = {
    "model_hash": "model",
    "tokenizer_hash": "tokenizer",
    "temperature": "temperature",
    "engine_dtype": "engine dtype",
    "chat_template": "chat template (data.apply_chat_template_kwargs or model.custom_chat_template)",
    "override_config": "config.json (model.override_config)",
}
_UNRECORDED = {"override_config": "{}"}  # of older stores

WRITE_AGAIN = "write it again with dph store"
# How to write a store anew under its name.
DELETE = "delete it, and the .samples.jsonl beside it if there is one"


@dataclass(slots=True)
class Row:
    """A response and its prompt: P prompt tokens, R response tokens, k next tokens per response position.

    A row read from a file has these dtypes; a row that is not written yet may have wider ones.

    Attributes:
        id: of the prompt; rows that share it are responses to the same prompt.
        prompt, response: (P,) and (R,) int32 token ids.
        ref_log_probs: (R,) float32, nats, of the response's tokens. None until the training engine has computed it.
        top_ids: (R, k) int32, the k most probable tokens at each response position; None in a store without them.
        top_log_probs: (R, k) float16, nats, descending.
        rest_log_prob: (R,) float16, nats: log of the probability of all other tokens, -inf when k is the vocabulary.
    """

    id: int | str
    prompt: torch.Tensor
    response: torch.Tensor
    ref_log_probs: torch.Tensor | None
    top_ids: torch.Tensor | None = None
    top_log_probs: torch.Tensor | None = None
    rest_log_prob: torch.Tensor | None = None


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

    @property
    def top_k(self) -> int:
        """Next tokens stored per response position, 0 for none."""
        return self.rows[0].top_ids.shape[1] if self.rows and self.rows[0].top_ids is not None else 0

    def save(self, path: str) -> None:
        """Write the file atomically.

        The rows become views of the written tensors, so that nothing is in memory twice.

        Raises:
            UserError: the file cannot be written.
        """
        top_k = self.top_k
        first_of: dict[int | str, Row] = {}
        for row in self.rows:
            _check_row(row, top_k)
            if not torch.equal(first_of.setdefault(row.id, row).prompt, row.prompt):
                raise ValueError(f"row {row.id}: two prompts with one id")
        prompts = list(first_of.values())
        content = {
            "format": FORMAT,
            "meta": dict(self.meta, rows=len(self), response_tokens=self.num_tokens, top_k=top_k),
            "ids": [row.id for row in self.rows],
            "prompt_lengths": torch.tensor([len(row.prompt) for row in prompts], dtype=torch.int64),
            "response_lengths": torch.tensor([len(row.response) for row in self.rows], dtype=torch.int64),
            "prompts": _joined(prompts, "prompt", torch.int32),
        }
        for row in self.rows:
            row.prompt = first_of[row.id].prompt
        for name, (stored_as, dtype) in _RESPONSE_FIELDS.items():
            if top_k or name not in _TOP_FIELDS:
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
        problem = _problem(content)
        if problem:
            raise UserError(f"D_pef store {path} does not fit together ({problem}): {WRITE_AGAIN}.")
        lengths = content["response_lengths"].tolist()
        ids, prompts = content["ids"], content["prompts"].split(content["prompt_lengths"].tolist())
        if len(prompts) < len(ids):
            prompt_of = dict(zip(dict.fromkeys(ids), prompts, strict=True))
            prompts = [prompt_of[id] for id in ids]
        columns = {"id": ids, "prompt": prompts}
        for name, (stored_as, _) in _RESPONSE_FIELDS.items():
            if stored_as in content:
                columns[name] = content[stored_as].split(lengths)
        rows = [Row(**dict(zip(columns, parts, strict=True))) for parts in zip(*columns.values(), strict=True)]
        return cls(content["meta"], rows)

    def size(self, path: str | os.PathLike) -> str:
        """The size of the file at `path` in words: tokens, megabytes, and bytes of the top-k."""
        words = f"{self.num_tokens:,} response tokens, {in_bytes(os.path.getsize(path))}"
        if not self.top_k:
            return words
        row = self.rows[0]
        bytes_per_token = sum(getattr(row, name).nbytes for name in _TOP_FIELDS) / len(row.response)
        return f"{words}; top-{self.top_k} next tokens take {bytes_per_token:.0f} bytes per response token"

    def check_origin(
        self, path: str | os.PathLike, expected: Mapping[str, str | float], remedy: str = WRITE_AGAIN
    ) -> None:
        """Reject a store whose reference log-probs or prompts are not those of this run.

        Args:
            path: the file, for the message.
            expected: this run's values by their key in `meta` (origin.origin_of); the keys of _ORIGIN are compared.
            remedy: what to do about it, for the message.
        """
        for name, what in _ORIGIN.items():
            recorded = self.meta.get(name, _UNRECORDED.get(name))
            if name in expected and recorded != expected[name]:
                raise UserError(
                    f"D_pef store {path} was made with another {what} ({short(recorded)}, from "
                    f"{self.meta.get('model')}) than this run's ({short(expected[name])}): its reference log-probs do "
                    f"not hold here, {remedy}."
                )

    def fingerprint(self) -> str:
        """sha256 of the ids and tokens of the rows in their order, hexadecimal; top-k tokens do not change it."""
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


def stored_dtype(name: str) -> torch.dtype:
    """The dtype in the file of a Row's field."""
    return _RESPONSE_FIELDS[name][1]


def _check_row(row: Row, top_k: int) -> None:
    """Raise ValueError for a row that is not complete."""
    tokens = len(row.response)
    if row.ref_log_probs is None or len(row.ref_log_probs) != tokens or not tokens:
        log_probs = 0 if row.ref_log_probs is None else len(row.ref_log_probs)
        raise ValueError(f"row {row.id}: {tokens} response tokens, {log_probs} log-probs")
    found = [None if part is None else tuple(part.shape) for part in (getattr(row, name) for name in _TOP_FIELDS)]
    wanted = [(tokens, top_k), (tokens, top_k), (tokens,)] if top_k else [None] * 3
    if found != wanted:
        raise ValueError(f"row {row.id}: top-k of shapes {found}, wanted {wanted}")


def _problem(content: dict) -> str | None:
    """The first fault of a file's content, or None."""
    if not isinstance(content.get("ids"), list) or not isinstance(content.get("meta"), dict):
        return "ids or meta is missing"
    ids, top_k = content["ids"], content["meta"].get("top_k", 0)
    for name, fitting in (("prompt_lengths", {len(ids), len(set(ids))}), ("response_lengths", {len(ids)})):
        lengths = content.get(name)
        if not isinstance(lengths, torch.Tensor) or (lengths.dtype, lengths.dim()) != (torch.int64, 1):
            return f"{name} is missing"
        if len(lengths) not in fitting:
            return f"{len(ids)} ids have {len(lengths)} {name}"
        if (lengths < 1).any():
            return f"{name} holds a length below 1"
    prompt_tokens, tokens = (int(content[name].sum()) for name in ("prompt_lengths", "response_lengths"))
    wanted: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {"prompts": (torch.int32, (prompt_tokens,))}
    for name, (stored_as, dtype) in _RESPONSE_FIELDS.items():
        if top_k or name not in _TOP_FIELDS or stored_as in content:
            wanted[stored_as] = dtype, (tokens, top_k) if name in ("top_ids", "top_log_probs") else (tokens,)
    for name, (dtype, shape) in wanted.items():
        tensor = content.get(name)
        if not isinstance(tensor, torch.Tensor):
            return f"{name} is missing"
        if (tensor.dtype, tuple(tensor.shape)) != (dtype, shape):
            return f"{name} is {tensor.dtype} {tuple(tensor.shape)}, its lengths and top_k={top_k} make {dtype} {shape}"
    return None
