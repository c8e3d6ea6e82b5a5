"""Generation for a batch of requests with a Hugging Face causal language model.

Shapes: P distinct prompts, B rows (unfinished requests), V ids in the model's vocabulary, L columns of the
cache. Rows are padded on the left, so that all of them append to the same column. Tensors are on the model's device.
"""

import functools
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel

from verl.dph.hf_rollout.sampling import SamplingParams, draw, restrict

_COMPACT_BELOW = 0.75  # finished rows leave the cache when fewer than this share are unfinished


@dataclass(eq=False)
class Request:
    """One prompt to be continued.

    Attributes:
        prompt_ids: at least one token id.
        params: how to sample.
        stop_ids: ids after which the response ends, the model's end-of-sequence ids among them.
        uniforms: the request's own random numbers, one is taken per token.
        burst: requests with the same number form a batch; requests with None join the next batch.
        token_ids: the response, filled in by a `Generation`.
        log_probs: log-probability of each response token under softmax(logits / temperature) over the whole vocabulary,
            before any restriction, as verl's actor computes it. At temperature 0 it is computed at temperature 1.
        finished: a stop id or max_tokens was reached.
    """

    prompt_ids: Sequence[int]
    params: SamplingParams
    stop_ids: frozenset[int]
    uniforms: Iterator[float]
    burst: int | None = None
    token_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    finished: bool = False

    def append(self, token_id: int, log_prob: float) -> None:
        self.token_ids.append(token_id)
        self.log_probs.append(log_prob)
        self.finished = token_id in self.stop_ids or len(self.token_ids) >= self.params.max_tokens


def why_not(model: type[PreTrainedModel] | PreTrainedModel, path: str) -> str | None:
    """Why `Generation` cannot sample the model at `path`: its forward pass takes no cache of keys and values, as those
    of pure state-space models. None if it can."""
    if "past_key_values" in inspect.signature(model.forward).parameters:
        return None
    return (
        f"rollout.name=hf continues responses from a cache of keys and values, which {path} does not have "
        f"({model.config_class.__name__}): use another model, or rollout.name=vllm."
    )


class Generation:
    """Generate for a batch of requests, one token each per `step`.

    Every distinct prompt is prefilled once. A request's tokens depend on its own random numbers and on the logits; the
    logits depend on the other rows only through floating-point rounding.

    Args:
        model: any causal language model that `why_not` does not name, in eval mode.
        requests: not empty.
        sampled_vocabulary: ids from this one on are never sampled; a vocabulary is often padded beyond the tokenizer's.
    """

    def __init__(self, model: PreTrainedModel, requests: Sequence[Request], sampled_vocabulary: int) -> None:
        accepted = inspect.signature(model.forward).parameters
        self._model = model
        self._takes_position_ids = "position_ids" in accepted
        self._keep_last_logits = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        self._sampled_vocabulary = sampled_vocabulary
        self._rows = list(requests)
        # It copies all keys and values for every token. Appending in place saved 4 % at the demo's 48 tokens per
        # response (13 % at 400); transformers' StaticCache, which also attends to its unused columns, saved nothing.
        self._cache = DynamicCache(config=model.config)
        self._next_ids: Any = None  # [B] int64, once the prompts are read
        self._sampler = _BatchSampler(self._rows, model.device)

    @property
    def unfinished(self) -> list[Request]:
        """The requests that still need tokens."""
        return [row for row in self._rows if not row.finished]

    @torch.inference_mode()
    def step(self) -> list[Request]:
        """Sample one token for every unfinished request and return those that it finishes."""
        logits = self._prefill() if self._next_ids is None else self._decode()
        token_ids, log_probs = self._sampler.sample(logits, self._sampled_vocabulary)
        newly_finished: list[Request] = []
        for row, token_id, log_prob in zip(self._rows, token_ids.tolist(), log_probs.tolist(), strict=True):
            if not row.finished:
                row.append(token_id, log_prob)
                if row.finished:
                    newly_finished.append(row)
        self._next_ids = token_ids
        self._drop_finished_rows()
        return newly_finished

    def _prefill(self) -> torch.Tensor:
        """Prefill each distinct prompt and repeat its cache for every request. Returns logits [B, V]."""
        index_of: dict[tuple[int, ...], int] = {}
        prompt_of_row = torch.tensor([index_of.setdefault(tuple(row.prompt_ids), len(index_of)) for row in self._rows])
        width = max(len(prompt) for prompt in index_of)
        input_ids = torch.zeros(len(index_of), width, dtype=torch.long)
        mask = torch.zeros_like(input_ids)
        for prompt, index in index_of.items():
            input_ids[index, width - len(prompt) :] = torch.tensor(prompt)
            mask[index, width - len(prompt) :] = 1
        input_ids, mask, prompt_of_row = (t.to(self._model.device) for t in (input_ids, mask, prompt_of_row))
        logits = self._forward(input_ids, mask, (mask.cumsum(-1) - 1).clamp(min=0))
        self._cache.reorder_cache(prompt_of_row)
        self._mask = mask[prompt_of_row]
        return logits[prompt_of_row]

    def _decode(self) -> torch.Tensor:
        """Decode one step from each row's last token. Returns logits [B, V]."""
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(self._rows), 1)], dim=1)
        return self._forward(self._next_ids[:, None], self._mask, self._mask.sum(-1, keepdim=True) - 1)

    def _forward(self, input_ids: torch.Tensor, mask: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Logits of the last column, float32 [rows, V]; appends to the cache."""
        positions = {"position_ids": position_ids} if self._takes_position_ids else {}
        output = self._model(
            input_ids=input_ids,
            attention_mask=mask,
            past_key_values=self._cache,
            use_cache=True,
            **positions,
            **self._keep_last_logits,
        )
        return output.logits[:, -1].float()

    def _drop_finished_rows(self) -> None:
        """Drop finished rows from the cache, once it is worth copying the rest."""
        keep = [index for index, row in enumerate(self._rows) if not row.finished]
        if not keep or len(keep) > _COMPACT_BELOW * len(self._rows):
            return
        indices = torch.tensor(keep, device=self._model.device)
        self._rows = [self._rows[index] for index in keep]
        self._cache.reorder_cache(indices)
        self._mask = self._mask[indices]
        self._next_ids = self._next_ids[indices]
        self._sampler = _BatchSampler(self._rows, self._model.device)


class _BatchSampler:
    """The sampling parameters of a batch's rows as tensors."""

    def __init__(self, rows: Sequence[Request], device: torch.device) -> None:
        params = [row.params for row in rows]
        self._tensor = tensor = functools.partial(torch.tensor, device=device)
        self._greedy = tensor([p.greedy for p in params])
        self._temperature = tensor([1.0 if p.greedy else p.temperature for p in params])[:, None]
        self._restricted = tensor([i for i, p in enumerate(params) if p.restricts_vocabulary], dtype=torch.long)
        self._top_k = tensor([p.top_k for p in params])[self._restricted]
        self._top_p = tensor([p.top_p for p in params], dtype=torch.float64)[self._restricted]
        self._any_greedy = bool(self._greedy.any())
        self._uniforms = [row.uniforms for row in rows]

    def sample(self, logits: torch.Tensor, sampled_vocabulary: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Choose the next token of each row.

        Args:
            logits: [B, V] float32.
            sampled_vocabulary: see `Generation`.

        Returns:
            token ids [B] int64 and their log-probabilities [B] float32, as `Request.log_probs` defines them.
        """
        log_probs = torch.log_softmax(logits / self._temperature, dim=-1)
        weights = log_probs[:, :sampled_vocabulary].double().exp()
        if len(self._restricted):
            weights[self._restricted] = restrict(weights[self._restricted], self._top_k, self._top_p)
        uniform = self._tensor([next(numbers) for numbers in self._uniforms], dtype=torch.float64)
        token_ids = draw(weights, uniform)
        if self._any_greedy:
            token_ids = torch.where(self._greedy, weights.argmax(-1), token_ids)
        return token_ids, log_probs.gather(1, token_ids[:, None])[:, 0]
