"""Summary of a finished samples file: pass counts, Pass@k, outcomes."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rl.data.sample_file import read_metadata, read_samples
from rl.data.wording import histogram
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

    def pass_at(self, k: int) -> float:
        """Unbiased Pass@k, for k up to n, averaged over prompts."""
        correct = np.array(list(self.prompts_by_correct.elements()))
        return float(pass_at_k(correct, self.n, k).mean())

    def __str__(self) -> str:
        counts = {correct: self.prompts_by_correct[correct] for correct in range(self.n + 1)}
        lines = histogram(f"correct of {self.n}", counts)
        passes = "  ".join(f"Pass@{k} {self.pass_at(k):.4f}" for k in k_values(self.n))
        lines.append(f"{passes}  ({self.samples} samples of {self.prompts_by_correct.total()} prompts)")
        truncated, tokens = self.truncated / self.samples, self.response_tokens / self.samples
        lines.append(f"truncated {truncated:.1%}, {tokens:.1f} tokens per response")
        lines.append("outcomes: " + ", ".join(f"{name} {number}" for name, number in self.outcomes.most_common()))
        if self.overlong:
            lines.append(f"{self.overlong} prompts were left out as too long")
        return "\n".join(lines)


def summarize(samples: Path) -> SampleSummary:
    """Read a finished file once, record by record.

    Raises:
        UserError: the file or its metadata cannot be read.
    """
    metadata = read_metadata(samples)
    correct: Counter[int] = Counter()  # by id
    outcomes: Counter[str] = Counter()
    truncated = tokens = 0
    for record in read_samples(samples):
        correct[record.id] += record.acc
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
