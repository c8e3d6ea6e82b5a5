"""Split of a training parquet by the pass counts of its samples: near-perfect prompts (D_pef) and the rest (D_exp).

A prompt with at least `threshold` correct samples of n is near-perfect (docs/explanation/method.md). Both parts keep
the number of correct samples in a column BASE_CORRECT; it is 0 for prompts that the initial policy did not solve. Their
schema names the model that was sampled, MODEL_HASH, because another model's split says nothing about this one.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rl.common.atomic_write import replacing
from rl.common.errors import UserError, file_errors
from rl.common.fingerprint import file_sha256
from rl.common.outcomes import GOLD_FAILURES
from rl.common.parquet_file import open_parquet
from rl.data.sample_file import UNJUDGED, SampleMetadata, read_metadata, read_samples

BASE_CORRECT = "base_correct"
MODEL_HASH = b"dph.model_hash"  # a key of the schema's metadata


@dataclass(frozen=True)
class Split:
    """The input's rows, in its order and schema, and the column BASE_CORRECT (int32), the correct samples of n."""

    correct: pa.Table  # at least `threshold` correct samples
    wrong: pa.Table  # fewer
    pass_counts: Counter[int]  # prompts by their number of correct samples, 0..n, without gold_failed
    gold_failed: list[int]  # ids whose reference failed in every sample: no response can be rewarded
    gold_failed_at_times: list[int]  # ids whose reference failed in some samples, which count as wrong
    dropped_zero: int  # prompts without a correct sample that were left out
    overlong: int  # prompts that were too long to be sampled, also left out


def split(data: Path, samples: Path, *, threshold: int, n: int, keep_zero: bool) -> Split:
    """Split the rows of `data` by the samples of its prompts.

    Args:
        samples: the file of the presampler.
        threshold: the number of correct samples that makes a prompt near-perfect, 1..n.
        n: samples per prompt.
        keep_zero: whether prompts without any correct sample stay in the wrong part.
    """
    if not 1 <= threshold <= n:
        raise UserError(f"The threshold is {threshold} of n = {n} samples: give one from 1 to n.")
    metadata = _metadata(data, samples, n)
    with open_parquet(data, ["id"], "make it with dph prepare") as parquet:
        table = parquet.read()
    ids = table["id"].to_pylist()
    correct, failures = _correct_counts(samples, n)
    gold_failed = {id for id, count in failures.items() if count == n}
    _check_ids(data, ids, correct.keys() | set(metadata.overlong_ids))
    counts = [correct.get(id) for id in ids]  # None: too long to be sampled
    lowest_kept = 0 if keep_zero else 1
    near_perfect = [count is not None and count >= threshold for count in counts]
    explored = [count is not None and lowest_kept <= count < threshold for count in counts]
    if not any(near_perfect) or not any(explored):
        part = "D_exp" if any(near_perfect) else "D_pef"
        found = Counter(count for count in counts if count is not None)
        histogram = ", ".join(f"{count} of {n}: {found[count]}" for count in sorted(found)) or "none was sampled"
        zero = "" if keep_zero else ", or --keep-zero, which explores those without a correct sample too"
        raise UserError(
            f"{part} is empty at the threshold {threshold} (prompts by correct samples: {histogram}): give another "
            f"--threshold{zero}."
        )
    if BASE_CORRECT in table.column_names:  # a part of an earlier split
        table = table.drop_columns([BASE_CORRECT])
    table = table.append_column(BASE_CORRECT, pa.array(counts, pa.int32()))
    table = table.replace_schema_metadata((table.schema.metadata or {}) | {MODEL_HASH: metadata.model_hash.encode()})
    return Split(
        correct=table.filter(pa.array(near_perfect, pa.bool_())),
        wrong=table.filter(pa.array(explored, pa.bool_())),
        pass_counts=Counter(count for id, count in correct.items() if id not in gold_failed),
        gold_failed=[id for id in ids if id in gold_failed],
        gold_failed_at_times=[id for id in ids if 0 < failures[id] < n],
        dropped_zero=0 if keep_zero else counts.count(0),
        overlong=counts.count(None),
    )


def failed_refinement(correct: Path) -> Path:
    """The file beside the near-perfect prompts with those of them whose refinement sample failed (dph store)."""
    return correct.with_suffix(".failed.parquet")


def model_of(part: Path) -> str | None:
    """The model_hash of the model whose samples decided a part of a split; None if the file does not say it."""
    recorded = (pq.read_schema(part).metadata or {}).get(MODEL_HASH)
    return None if recorded is None else recorded.decode()


def write_split(parts: Split, correct: Path, wrong: Path) -> None:
    """Write the two parts, each in one step. What an earlier refinement found of another split goes."""
    with file_errors(f"{correct} and {wrong}", "written", "name another --out"):
        for path in (correct, wrong):
            path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(correct) as correct_part, replacing(wrong) as wrong_part:
            pq.write_table(parts.correct, correct_part)
            pq.write_table(parts.wrong, wrong_part)
        failed_refinement(correct).unlink(missing_ok=True)


def _metadata(data: Path, samples: Path, n: int) -> SampleMetadata:
    found = read_metadata(samples)
    if found.scorer == UNJUDGED:
        raise UserError(
            f"{samples} holds samples without verdicts, which a split counts: sample prompts with ground truth."
        )
    if found.n != n:
        raise UserError(f"{samples} was drawn with n = {found.n} samples per prompt, not {n}: pass --n {found.n}.")
    if file_sha256(data) not in found.data_files.values():
        raise UserError(
            f"{data} is not the file that {samples} was sampled from ({', '.join(found.data_files)}): give that "
            "file, or sample this one."
        )
    return found


def _correct_counts(samples: Path, n: int) -> tuple[dict[int, int], Counter[int]]:
    """Number of correct samples by id, and of those whose reference failed; each id must have n."""
    correct: Counter[int] = Counter()
    gold_failures: Counter[int] = Counter()
    drawn: defaultdict[int, set[int]] = defaultdict(set)  # the samples' numbers by id
    for record in read_samples(samples):
        drawn[record.id].add(record.sample)
        correct[record.id] += record.acc or 0
        gold_failures[record.id] += record.outcome in GOLD_FAILURES
    for id, numbers in drawn.items():
        if (number := len(numbers)) != n:
            hint = "re-run the sampler to resume" if number < n else "sample again"
            raise UserError(f"{samples}: id {id} has {number} samples, not {n}: {hint}.")
    return dict(correct), gold_failures


def _check_ids(data: Path, ids: list, known: set[int]) -> None:
    unsampled = [id for id in ids if id not in known]
    if unsampled:
        raise UserError(
            f"{len(unsampled)} prompts of {data} have no samples (the first is id {unsampled[0]}): re-run the "
            "sampler to resume."
        )
    unknown = sorted(known - set(ids))
    if unknown:
        raise UserError(f"The samples have {len(unknown)} ids that {data} lacks (the first is {unknown[0]}).")
