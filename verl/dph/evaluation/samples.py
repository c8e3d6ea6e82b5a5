"""Sample records (JSONL) as arrays, checked: every prompt has the samples 0..n-1, once each."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from verl.dph.errors import UserError
from verl.dph.evaluation.styles import OTHERS, style_of

GOLD_FAILURES = ("gold_error", "gold_timeout")


@dataclass(frozen=True)
class SampleSet:
    """The samples of one model on one split. P prompts, n samples a prompt."""

    path: Path
    ids: np.ndarray  # [P] int64, ascending
    correct: np.ndarray  # [P, n] bool, by sample number
    style: np.ndarray  # [P, n] int, index into style_names
    style_names: tuple[str, ...]  # the known styles, then OTHERS; empty when the task has no styles
    truncated: np.ndarray  # [P, n] bool, the response hit its length limit
    gold_failures: int  # samples whose reference query itself failed: they count as wrong

    @property
    def n(self) -> int:
        return self.correct.shape[1]

    @property
    def prompts(self) -> int:
        return self.correct.shape[0]


def read_samples(path: Path, styles: tuple[str, ...]) -> SampleSet:
    """Reads a samples file.

    Args:
        path: JSONL, one record a sample with id, sample, acc, pred, outcome and truncated.
        styles: the known styles; empty for a task without styles.

    Raises:
        UserError: the file is missing or empty, a line is not a record, or a prompt lacks or repeats a sample.
    """
    by_prompt: dict[int, dict[int, dict]] = {}
    for number, record in _records(path):
        samples = by_prompt.setdefault(record["id"], {})
        if record["sample"] in samples:
            raise UserError(
                f"{path} line {number} repeats sample {record['sample']} of id {record['id']}: the file was written "
                "twice or joined; sample it again."
            )
        samples[record["sample"]] = record
    if not by_prompt:
        raise UserError(f"{path} holds no sample: sample the model before the report.")
    n = _samples_a_prompt(path, by_prompt)
    ids = sorted(by_prompt)
    names = (*styles, OTHERS) if styles else ()
    rows = [[by_prompt[i][s] for s in range(n)] for i in ids]
    return SampleSet(
        path=path,
        ids=np.array(ids, dtype=np.int64),
        correct=np.array([[record["acc"] == 1 for record in row] for row in rows]),
        style=np.array([[_style_index(record, names) for record in row] for row in rows]),
        style_names=names,
        truncated=np.array([[record["truncated"] for record in row] for row in rows]),
        gold_failures=sum(record["outcome"] in GOLD_FAILURES for row in rows for record in row),
    )


def require_same_prompts(samples: SampleSet, reference: SampleSet) -> None:
    """Raises UserError when two sets do not hold the same prompts: they could not be compared pair by pair."""
    missing = np.setdiff1d(reference.ids, samples.ids)
    surplus = np.setdiff1d(samples.ids, reference.ids)
    if missing.size or surplus.size:
        example = f"lacks id {missing[0]}" if missing.size else f"has id {surplus[0]} beyond it"
        raise UserError(
            f"{samples.path} and {reference.path} hold different prompts ({missing.size} missing, {surplus.size} more; "
            f"the first {example}): sample both on the same data file."
        )


def require_same_n(samples: SampleSet, reference: SampleSet) -> None:
    """Raises UserError when two sets have another number of samples a prompt: Pass@n would not be comparable."""
    if samples.n != reference.n:
        raise UserError(
            f"{samples.path} has {samples.n} samples a prompt and {reference.path} has {reference.n}: "
            "sample every method equally often."
        )


def _records(path: Path):
    """Yields (line number, record) with the fields that metrics need, each of its type."""
    try:
        lines = path.open("rb")
    except OSError as error:
        raise UserError(f"The samples {path} cannot be read ({error.strerror}): sample the model first.") from error
    with lines:
        for number, line in enumerate(lines, start=1):
            try:
                record = json.loads(line)
                fault = _fault(record)
            except ValueError:
                fault = "is not JSON"
            if fault:
                raise UserError(f"{path} line {number} {fault}: it is not a sample record; sample the file again.")
            yield number, record


def _fault(record) -> str | None:
    if not isinstance(record, dict):
        return "is not a JSON object"
    for key in ("id", "sample"):
        if type(record.get(key)) is not int:
            return f"has no whole number '{key}'"
    if type(record.get("acc")) not in (int, float) or record["acc"] not in (0, 1):
        return f"has acc {record.get('acc')!r}, not 0 or 1"
    if "pred" not in record or not isinstance(record["pred"], str | None):
        return "has no 'pred' that is text or null"
    if type(record.get("truncated")) is not bool:
        return "has no true or false 'truncated'"
    if not isinstance(record.get("outcome"), str):
        return "has no text 'outcome'"
    return None


def _samples_a_prompt(path: Path, by_prompt: dict[int, dict[int, dict]]) -> int:
    """The n that all prompts share, with the samples numbered 0..n-1."""
    n = Counter(len(samples) for samples in by_prompt.values()).most_common(1)[0][0]
    for prompt, samples in by_prompt.items():
        if len(samples) != n:
            raise UserError(
                f"{path} has {len(samples)} samples of id {prompt} but {n} of most prompts: sampling was cut short; "
                "resume it."
            )
        if sorted(samples) != list(range(n)):
            absent = min(set(range(n)) - samples.keys())
            raise UserError(f"{path} lacks sample {absent} of id {prompt}, whose {n} samples must be 0..{n - 1}.")
    return n


def _style_index(record: dict, names: tuple[str, ...]) -> int:
    return names.index(style_of(record["pred"], names[:-1])) if names else 0
