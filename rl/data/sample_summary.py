"""Summary of a finished samples file: pass counts, Pass@k, outcomes."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rl.common.text import histogram
from rl.data.sample_file import UNJUDGED, read_metadata, read_samples
from rl.metrics.pass_at_k import k_values, pass_at_k


@dataclass(frozen=True)
class SampleSummary:
    """Counts over all samples of a file with n samples per prompt."""

    n: int
    prompts_by_correct: Counter[int]  # prompts by their number of correct samples, 0..n
    outcomes: Counter[str]  # samples by the scorer's outcome
    truncated: int  # samples cut off at the length limit
    response_tokens: int
    overlong: int  # prompts that were left out as too long

    @property
    def samples(self) -> int:
        return self.outcomes.total()

    @property
    def passes(self) -> dict[str, Any]:
        """See pass_summary."""
        return pass_summary(self.prompts_by_correct.elements(), self.n)

    def __str__(self) -> str:
        count = f"{self.samples} samples of {self.prompts_by_correct.total()} prompts"
        if UNJUDGED in self.outcomes:
            lines = [f"{count}, which were not judged"]
        else:
            lines = pass_lines(self.passes)
            lines[-1] += f"  ({count})"
        truncated, tokens = self.truncated / self.samples, self.response_tokens / self.samples
        lines.append(f"truncated {truncated:.1%}, {tokens:.1f} tokens per response")
        if UNJUDGED not in self.outcomes:
            outcomes = ", ".join(f"{name} {number}" for name, number in self.outcomes.most_common())
            lines.append(f"outcomes: {outcomes}")
        if self.overlong:
            lines.append(f"{self.overlong} prompts were left out as too long")
        return "\n".join(lines)


def pass_summary(correct: Iterable[int], n: int | None) -> dict[str, Any]:
    """Histogram of the numbers of correct samples and, if n is known, unbiased Pass@k.

    Args:
        correct: each prompt's number of correct samples, at least one.
        n: samples per prompt; None if only the correct ones were counted.

    Returns:
        {"n", "prompts": [prompts with 0, 1, ... correct samples], "pass@k": {k: mean}}.
    """
    counts = np.fromiter(correct, dtype=int)
    prompts = np.bincount(counts, minlength=0 if n is None else n + 1).tolist()
    values = {} if n is None else {str(k): float(pass_at_k(counts, n, k).mean()) for k in k_values(n)}
    return {"n": n, "prompts": prompts, "pass@k": values}


def pass_lines(passes: Mapping[str, Any]) -> list[str]:
    """A pass_summary in words; the last line has Pass@k, if n is known."""
    of = f" of {passes['n']}" if passes["n"] else ""
    values = "  ".join(f"Pass@{k} {value:.4f}" for k, value in passes["pass@k"].items())
    return histogram(f"correct{of}", dict(enumerate(passes["prompts"]))) + ([values] if values else [])


def summarize(samples: Path) -> SampleSummary:
    """Read a finished file once, record by record."""
    metadata = read_metadata(samples)
    correct: Counter[int] = Counter()  # by id
    outcomes: Counter[str] = Counter()
    truncated = tokens = 0
    for record in read_samples(samples):
        correct[record.id] += record.acc or 0
        outcomes[record.outcome] += 1
        truncated += record.truncated
        tokens += len(record.response_ids)
    return SampleSummary(
        n=metadata.n,
        prompts_by_correct=Counter(correct.values()),
        outcomes=outcomes,
        truncated=truncated,
        response_tokens=tokens,
        overlong=len(metadata.overlong_ids),
    )
