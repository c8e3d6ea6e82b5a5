"""Samples of a model: the sampler's records, or the paper's JSON lines (id, input, output, score, acc)."""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rl.common.errors import UserError
from rl.common.outcomes import GOLD_FAILURES, is_correct
from rl.data.inspect.file_kinds import PARQUET_MAGIC, SAMPLES, is_sample, parquet_rows, progress
from rl.data.inspect.report import FileReport, Options, pass_summary, text_hash
from rl.data.json_text import loads_or_none
from rl.data.sample_file import MOST_SAMPLES, REQUIRED_KEYS, SampleMetadata, read_metadata
from rl.data.wording import named, number_of, without_reference

_SHOWN = ("id", "sample", "data_source", "score", "acc", "outcome", "truncated", "input", "output")
_FAULTS = {
    "incomplete": "without a key that samples have, or with a value of another type",
    "repeated": "that repeat an earlier id and sample number",
    "other text": "with another prompt text than the first sample of the id",
    "misjudged": "with an acc that is not what the score says",
}


@dataclass(slots=True)
class _Prompt:
    """What is known of one prompt's samples."""

    text: int | None
    seen: int = 0  # a bit for each sample number
    drawn: int = 0
    correct: int = 0
    gold_failed: int = 0


def inspect_samples(path: Path, options: Options) -> FileReport:
    report = FileReport(path, SAMPLES, options)
    with open(path, "rb") as file:
        is_parquet = file.read(4) == PARQUET_MAGIC
    columns = pq.read_schema(path).names if is_parquet else []
    samples = parquet_rows(path, columns, report.problems) if is_parquet else _json_samples(path, report.problems)
    tally = _Tally(report, options)
    for sample in samples:
        tally.add(sample)
    prompts = tally.prompts
    metadata = None
    if tally.ours:
        try:
            metadata = read_metadata(path)
        except UserError as error:
            report.problems.append(str(error))
    else:
        report.kind += ", in the paper's format"
    n = metadata.n if metadata else _usual_number(prompts)
    report.facts = {"keys": tally.keys, "prompts": len(prompts)} | _facts(metadata)
    if tally.truncated:
        report.shares["truncated"] = tally.truncated[True] / tally.truncated.total()
    report.passes = pass_summary([prompt.correct for prompt in prompts.values() if prompt.drawn == n], n)
    report.examples = [{name: row[name] for name in _SHOWN if name in row} for row in report.chosen]
    for fault, what in _FAULTS.items():
        if tally.faults[fault]:
            report.problems.append(f"{number_of(tally.faults[fault], 'sample')} {what}.")
    report.problems += report.duplicates("prompt") + ([] if report.rows else ["There is no sample."])
    report.problems += _incomplete_prompts(prompts, n or 0)
    failed = [id for id, prompt in prompts.items() if 0 < prompt.drawn == prompt.gold_failed]
    if failed:
        report.problems.append(f"No reference: {without_reference(failed)}")
    if metadata and len(prompts) != metadata.rows:
        report.problems.append(
            f"There are samples of {len(prompts)} prompts, but the metadata announce {metadata.rows}."
        )
    return report


class _Tally:
    """What the samples say of the prompts, beside what goes into the report.

    Attributes:
        ours: whether the samples are the sampler's; else they are in the paper's format.
        faults: samples by the key of _FAULTS.
    """

    def __init__(self, report: FileReport, options: Options):
        self.ours: bool = False
        self.keys: list[str] = []
        self.prompts: dict[int | str, _Prompt] = {}
        self.faults: Counter[str] = Counter()
        self.truncated: Counter[bool] = Counter()
        self._report, self._tokenizer = report, options.tokenizer

    def add(self, sample: dict[str, Any]) -> None:
        if not self.keys:
            self.keys, self.ours = list(sample), sample.keys() >= REQUIRED_KEYS
        if not self._is_whole(sample):
            self.faults["incomplete"] += 1
            return
        prompt = self._prompt(sample)
        number = sample["sample"] if self.ours else prompt.drawn
        if prompt.seen >> number & 1:
            self.faults["repeated"] += 1
            return
        acc = sample.get("acc")
        correct = is_correct(sample["score"] if acc is None else acc)
        prompt.seen |= 1 << number
        prompt.drawn += 1
        prompt.correct += correct
        prompt.gold_failed += sample.get("outcome") in GOLD_FAILURES
        self.faults["misjudged"] += self.ours and correct != is_correct(sample["score"])
        self._count(sample)

    def _is_whole(self, sample: dict[str, Any]) -> bool:
        right_types = isinstance(sample["id"], int | str) and isinstance(sample["output"], str)
        right_types &= isinstance(sample["score"], int | float) and math.isfinite(sample["score"])
        right_types &= isinstance(sample.get("acc"), int | float | None)
        if self.ours:
            right_types &= sample.keys() >= REQUIRED_KEYS and type(sample["sample"]) is int
            return right_types and 0 <= sample["sample"] < MOST_SAMPLES
        return right_types

    def _prompt(self, sample: dict[str, Any]) -> _Prompt:
        report, id, text = self._report, sample["id"], sample.get("input")
        hashed = text_hash(text) if isinstance(text, str) else None
        if id not in self.prompts:
            self.prompts[id] = _Prompt(hashed)
            report.ids[id] += 1
            if isinstance(text, str) and hashed is not None:
                report.add_text(id, hashed)
                report.lengths["input characters"][len(text)] += 1
                if self._tokenizer is not None:
                    tokens = self._tokenizer(text, add_special_tokens=False)["input_ids"]
                    report.lengths["prompt tokens"][len(tokens)] += 1
        prompt = self.prompts[id]
        self.faults["other text"] += hashed != prompt.text
        return prompt

    def _count(self, sample: dict[str, Any]) -> None:
        report = self._report
        report.add_row(sample)
        for name in ("data_source", "outcome"):
            if sample.get(name) is not None:
                report.counts[name][str(sample[name])] += 1
        if isinstance(sample.get("truncated"), bool):
            self.truncated[sample["truncated"]] += 1
        report.lengths["output characters"][len(sample["output"])] += 1
        if isinstance(sample.get("response_ids"), list):
            report.lengths["response tokens"][len(sample["response_ids"])] += 1


def _json_samples(path: Path, problems: list[str]) -> Iterator[dict[str, Any]]:
    """The lines that are samples; the others are counted in `problems`."""
    bad, first_bad, torn = 0, 0, False
    with open(path, "rb") as file, progress(path.stat().st_size, path, "B") as bar:
        for number, line in enumerate(file, start=1):
            bar.update(len(line))
            content = loads_or_none(line)
            ended = line.endswith(b"\n")
            # The paper's files may end without a line break; a line of the sampler without one is not whole.
            if is_sample(content) and (ended or not content.keys() >= REQUIRED_KEYS):
                yield content
            elif not ended:
                torn = True
            elif line.strip():
                bad, first_bad = bad + 1, first_bad or number
    if bad:
        problems.append(f"{number_of(bad, 'line')} cannot be read as a sample (the first is line {first_bad}).")
    if torn:
        problems.append("The last line is torn, as a stopped sampler leaves it: re-run it to resume.")


def _facts(metadata: SampleMetadata | None) -> dict[str, Any]:
    if metadata is None:
        return {}
    facts = dataclasses.asdict(metadata)
    facts["prompts announced"], facts["overlong"] = facts.pop("rows"), len(facts.pop("overlong_ids"))
    return facts


def _usual_number(prompts: dict[int | str, _Prompt]) -> int | None:
    """The number of samples that most prompts have, the larger of two."""
    numbers = Counter(prompt.drawn for prompt in prompts.values() if prompt.drawn)
    return max(numbers, key=lambda number: (numbers[number], number), default=None)


def _incomplete_prompts(prompts: dict[int | str, _Prompt], n: int) -> list[str]:
    odd = [id for id, prompt in prompts.items() if prompt.seen != (1 << n) - 1]
    if not odd:
        return []
    first = f"the first, id {odd[0]}, has {prompts[odd[0]].drawn}"
    return [f"{len(odd)} of {len(prompts)} prompts have other samples than 0 to {n - 1} ({named(odd)}; {first})."]
