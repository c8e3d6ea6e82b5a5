"""The D_pef store: one correct response of the initial policy a prompt, as token ids, with its reference log-probs.

A `.pt` file of plain tensors, lists and numbers, readable with torch.load(weights_only=True). Token sequences lie end to
end in one tensor with their lengths beside it; nothing in it is ever tokenised again (METHOD.md, "Data").
"""

import os
from dataclasses import dataclass, field

import torch

from verl.dph.errors import UserError

FORMAT = "dph-store/1"


@dataclass
class Row:
    """One near-perfect prompt. prompt (P,), response (R,): int64 token ids; ref_log_probs (R,): float32, nats.

    ref_log_probs is None until the training engine has computed it.
    """

    id: int | str
    prompt: torch.Tensor
    response: torch.Tensor
    ref_log_probs: torch.Tensor | None


@dataclass
class Store:
    """D_pef in memory.

    Attributes:
        meta: where it comes from: model (path), model_hash, tokenizer_hash, temperature, top_p, seed, engine dtype, and
            the counts of the refinement (prompts, kept).
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
        """Write aside, then rename: a reader sees the old file or the whole new one."""
        for row in self.rows:
            if row.ref_log_probs is None or len(row.response) != len(row.ref_log_probs) or not len(row.response):
                raise ValueError(
                    f"row {row.id}: {len(row.response)} response tokens, "
                    f"{0 if row.ref_log_probs is None else len(row.ref_log_probs)} log-probs"
                )
        content = {
            "format": FORMAT,
            "meta": dict(self.meta, rows=len(self), response_tokens=self.num_tokens),
            "ids": [row.id for row in self.rows],
            "prompt_lengths": torch.tensor([len(row.prompt) for row in self.rows], dtype=torch.int64),
            "response_lengths": torch.tensor([len(row.response) for row in self.rows], dtype=torch.int64),
            "prompts": _joined([row.prompt for row in self.rows], torch.int32),
            "responses": _joined([row.response for row in self.rows], torch.int32),
            "ref_log_probs": _joined([row.ref_log_probs for row in self.rows], torch.float32),
        }
        aside = f"{path}.{os.getpid()}.tmp"
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        try:
            torch.save(content, aside)
            os.replace(aside, path)
        finally:
            if os.path.exists(aside):
                os.remove(aside)

    @classmethod
    def load(cls, path: str) -> "Store":
        """Read a store.

        Raises:
            UserError: when the file is not one, is cut short, or its parts do not fit together.
        """
        hint = "write it again with scripts/llama/get_correct_data_tensor.sh"
        try:
            content = torch.load(path, weights_only=True, map_location="cpu")
        except FileNotFoundError:
            raise UserError(f"D_pef store {path} does not exist: {hint}.") from None
        except Exception as error:  # torch raises a dozen types for a file that is not its own
            raise UserError(
                f"D_pef store {path} cannot be read ({type(error).__name__}; plain tensors are wanted, no pickled "
                f"objects): {hint}."
            ) from error
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        if found != FORMAT:
            raise UserError(f"{path} is no D_pef store of this version (format {found!r}, wanted {FORMAT!r}): {hint}.")
        prompts = content["prompts"].long().split(content["prompt_lengths"].tolist())
        responses = content["responses"].long().split(content["response_lengths"].tolist())
        log_probs = content["ref_log_probs"].split(content["response_lengths"].tolist())
        if not len(content["ids"]) == len(prompts) == len(responses):
            raise UserError(f"D_pef store {path} holds {len(content['ids'])} ids for {len(prompts)} prompts: {hint}.")
        rows = [Row(*parts) for parts in zip(content["ids"], prompts, responses, log_probs, strict=True)]
        return cls(content["meta"], rows)

    def check_origin(self, path: str, **expected: str | float) -> None:
        """Refuse a store that another initial policy, tokenizer or temperature made.

        Args:
            path: the file, for the message.
            expected: what this run has, by the name in `meta`: model_hash, tokenizer_hash, temperature.
        """
        for name, value in expected.items():
            stored = self.meta.get(name)
            if stored != value:
                raise UserError(
                    f"D_pef store {path} was made with another {name.removesuffix('_hash')} ({_short(stored)}, from "
                    f"{self.meta.get('model')}) than this run's ({_short(value)}): its reference log-probs do not hold "
                    "here, write it again with scripts/llama/get_correct_data_tensor.sh."
                )


def _joined(parts: list[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    return torch.cat(parts).to(dtype) if parts else torch.empty(0, dtype=dtype)


def _short(value: object) -> str:
    return value[:12] if isinstance(value, str) and len(value) == 64 else str(value)
