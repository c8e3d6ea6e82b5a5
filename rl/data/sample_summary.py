"""Summary of a finished samples file: pass counts, Pass@k, outcomes."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rl.common.text import histogram
from rl.data.sample_file import UNJUDGED, read_metadata, read_samples
from rl.metrics.pass_at_k import k_values, pass_at_k


@dataclass(frozen=True)
class SampleSummary:
    """Counts over all samples of a file with n samples per prompt."""

    n: int
    correct: np.ndarray  # [P] int, each prompt's number of correct samples
    outcomes: Counter[str]  # samples by the scorer's outcome
    truncated: int  # samples cut off at the length limit
    response_tokens: int
    overlong: int  # prompts that were left out as too long

    def __str__(self) -> str:
        samples, judged = self.outcomes.total(), UNJUDGED not in self.outcomes
        count = f"{samples} samples of {self.correct.size} prompts"
        lines = pass_lines(self.correct, self.n) if judged else [f"{count}, which were not judged"]
        lines[-1] += f"  ({count})" if judged else ""
        lines.append(
            f"truncated {self.truncated / samples:.1%}, {self.response_tokens / samples:.1f} tokens per response"
        )
        if judged:
            lines.append("outcomes: " + ", ".join(f"{name} {number}" for name, number in self.outcomes.most_common()))
        if self.overlong:
            lines.append(f"{self.overlong} prompts were left out as too long")
        return "\n".join(lines)


def pass_lines(correct: Iterable[int], n: int) -> list[str]:
    """The histogram of the prompts' numbers of correct samples of n, and their unbiased Pass@k."""
    counts = np.fromiter(correct, dtype=int)
    prompts = np.bincount(counts, minlength=n + 1).tolist()
    values = "  ".join(f"Pass@{k} {pass_at_k(counts, n, k).mean():.4f}" for k in k_values(n))
    return [*histogram(f"correct of {n}", dict(enumerate(prompts))), values]


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
        correct=np.fromiter(correct.values(), dtype=int),
        outcomes=outcomes,
        truncated=truncated,
        response_tokens=tokens,
        overlong=len(metadata.overlong_ids),
    )
