"""Report on one file, as plain values for the printed page and for --json."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl.data.inspect.tally import Keys
from rl.metrics.pass_at_k import k_values, pass_at_k

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    examples: int
    seed: int
    tokenizer: "PreTrainedTokenizerBase | None"
    tokenizer_hash: str | None


@dataclass
class FileReport:
    """One file. Every value but `keys` is printed."""

    path: str
    kind: str
    rows: int  # of samples: samples
    facts: dict[str, Any] = field(default_factory=dict)  # columns, metadata
    counts: dict[str, dict[str, int]] = field(default_factory=dict)  # rows by data_source, by outcome
    lengths: dict[str, dict[str, int]] = field(default_factory=dict)  # what: min, median, p99, max
    shares: dict[str, float] = field(default_factory=dict)  # 0..1
    passes: dict[str, Any] | None = None  # see pass_summary
    examples: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    keys: Keys = field(default_factory=Keys)

    @property
    def name(self) -> str:
        return Path(self.path).name

    def as_json(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in dataclasses.fields(self) if item.name != "keys"}


def pass_summary(correct: list[int], n: int | None) -> dict[str, Any] | None:
    """Histogram of the numbers of correct samples and, where n is known, unbiased Pass@k.

    Args:
        correct: of each prompt.
        n: samples per prompt; None: only the correct ones were counted.

    Returns:
        {"n", "prompts": [prompts with 0, 1, ... correct samples], "pass@k": {k: mean}}, or None without a prompt.
    """
    if not correct:
        return None
    prompts = [0] * (1 + (max(correct) if n is None else n))
    for count in correct:
        prompts[count] += 1
    values = {} if n is None else {str(k): float(pass_at_k(correct, n, k).mean()) for k in k_values(n)}
    return {"n": n, "prompts": prompts, "pass@k": values}
