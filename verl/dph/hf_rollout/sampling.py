"""Sampling parameters, the random numbers of a request, and the choice of a batch's next tokens.

Shapes: B rows (requests) of a batch, V ids in the model's vocabulary.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig, PreTrainedTokenizerBase

from rl.configuration.names import GREEDY_TEMPERATURE

_UNIFORM_BLOCK = 64


@dataclass(frozen=True)
class SamplingParams:
    """Sampling parameters of a request, named as in vLLM.

    Attributes:
        max_tokens: at most this many tokens are generated, at least one.
        temperature: softmax temperature; 0 takes the most probable token.
        top_k: sample among this many most probable tokens; -1 or 0 is all of them.
        top_p: sample among the fewest most probable tokens whose probability, after top_k, reaches this sum.
        stop_token_ids: generation ends after any of these ids.
        ignore_eos: do not end at the model's own end-of-sequence ids.
        logprobs: return the log-probability of each generated token.
        seed: fixes the request's random numbers.
    """

    max_tokens: int
    temperature: float = 1.0
    top_k: int = -1
    top_p: float = 1.0
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    logprobs: bool = False
    seed: int | None = None

    @property
    def greedy(self) -> bool:
        return self.temperature <= GREEDY_TEMPERATURE

    @property
    def restricts_vocabulary(self) -> bool:
        return not self.greedy and (self.top_k > 0 or self.top_p < 1.0)

    @classmethod
    def from_request(
        cls, request: Mapping[str, Any], *, default_max_tokens: int, room: int, ignore_eos: bool
    ) -> "SamplingParams":
        """Read the dict that verl's agent loop sends.

        Args:
            request: the parameters; those absent or None take their defaults.
            default_max_tokens: max_tokens of a request that names none.
            room: tokens that fit behind the prompt; max_tokens is cut to it.
            ignore_eos: the rollout's setting, for a request that does not say.

        Raises:
            ValueError: for a parameter that this rollout does not know, or a value out of range.
        """
        given = {name: value for name, value in request.items() if value is not None}
        if given.get("repetition_penalty") == 1.0:  # verl always sends it
            del given["repetition_penalty"]
        unknown = sorted(set(given) - set(cls.__dataclass_fields__))
        if unknown:
            raise ValueError(
                f"the hf rollout does not know the sampling parameters {unknown}; it knows "
                f"{sorted(cls.__dataclass_fields__)}"
            )
        return cls(
            **{"ignore_eos": ignore_eos}
            | given
            | {
                "max_tokens": min(given.get("max_tokens", default_max_tokens), room),
                "stop_token_ids": frozenset(given.get("stop_token_ids", ())),
                # vLLM's meaning: the number of further alternatives to return, 0 for the sampled token alone
                "logprobs": given.get("logprobs", False) is not False,
            }
        )


def end_ids(tokenizer: PreTrainedTokenizerBase, generation_config: GenerationConfig | None) -> frozenset[int]:
    """Ids at which an engine ends a response: the tokenizer's end token and those of the generation config."""
    listed = None if generation_config is None else generation_config.eos_token_id
    ids = [tokenizer.eos_token_id, *(listed if isinstance(listed, list) else [listed])]
    return frozenset(ids) - {None}


def stable_key(*parts: Any) -> int:
    """A 128-bit key of JSON-serialisable parts, the same in every process and on every machine."""
    digest = hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).digest()
    return int.from_bytes(digest[:16], "little")


def uniforms(key: int) -> Iterator[float]:
    """The random numbers of one request: uniform in [0, 1), from Philox counted from 0 under `key`."""
    generator = np.random.Generator(np.random.Philox(key=key))
    while True:
        yield from generator.random(_UNIFORM_BLOCK).tolist()


def restrict(weights: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Keep the top_k heaviest ids of each row and of those the fewest heaviest that reach the share top_p.

    Among equal weights the lower id comes first.

    Args:
        weights: [B, V] float64, not negative, not necessarily normalised.
        top_k: [B] int64, at most 0 for no limit.
        top_p: [B] float64 in (0, 1].

    Returns:
        [B, V]: the weights, 0 where an id is dropped.
    """
    vocabulary = weights.shape[-1]
    ordered, ids = torch.sort(weights, dim=-1, descending=True, stable=True)
    limit = torch.where(top_k > 0, top_k, vocabulary)[:, None]
    ordered = ordered.masked_fill(torch.arange(vocabulary, device=weights.device) >= limit, 0.0)
    before = ordered.cumsum(-1) - ordered
    total = ordered.sum(-1, keepdim=True)
    reached = (before >= top_p[:, None] * total) & (top_p < 1.0)[:, None]
    return torch.zeros_like(weights).scatter(1, ids, ordered.masked_fill(reached, 0.0))


def draw(weights: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """One id per row, with probability proportional to its weight, by inversion of the distribution function.

    Args:
        weights: [B, V] float64, not negative.
        uniform: [B] float64 in [0, 1).

    Returns:
        [B] int64: the first id whose cumulative weight exceeds uniform x total.

    Raises:
        FloatingPointError: when a row's weights do not sum to a positive finite number.
    """
    cumulative = weights.cumsum(-1)
    total = cumulative[:, -1]
    if not bool((torch.isfinite(total) & (total > 0)).all()):
        raise FloatingPointError("the model's logits give no probability distribution (NaN or infinite values)")
    # rounding may lift uniform x total to the total itself, which no id exceeds
    threshold = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, threshold[:, None], right=True)[:, 0]
