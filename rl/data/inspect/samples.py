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
from rl.common.outcomes import is_correct
from rl.data.inspect.file_kinds import SAMPLES, is_sample
from rl.data.inspect.file_report import FileReport, Options, pass_summary
from rl.data.inspect.parquet import parquet_rows, progress
from rl.data.inspect.tally import Keys, Reservoir, length_summary, text_hash
from rl.data.json_text import loads_or_none
from rl.data.sample_file import MOST_SAMPLES, REQUIRED_KEYS, SampleMetadata, read_metadata
from rl.data.wording import named, number_of

_SHOWN = ("id", "sample", "data_source", "score", "acc", "outcome", "truncated", "input", "output")


@dataclass(slots=True)
class _Prompt:
    """What is known of one prompt's samples."""

    text: int | None
    seen: int = 0  # a bit for each sample number
    drawn: int = 0
    correct: int = 0


def inspect_samples(path: Path, options: Options) -> FileReport:
    problems: list[str] = []
    lines = _parquet_samples(path, problems) if _is_parquet(path) else _json_samples(path, problems)
    tally = _Tally(options)
    for sample in lines:
        tally.add(sample)
    ours = tally.format == "ours"
    metadata = _metadata(path, problems) if ours else None
    n = metadata.n if metadata else _usual_number(tally.prompts)
    problems += tally.problems() + _completeness(tally.prompts, n or 0, metadata)
    return FileReport(
        path=str(path),
        kind=SAMPLES if ours else f"{SAMPLES}, in the paper's format",
        rows=tally.rows,
        facts={"keys": tally.columns, "prompts": len(tally.prompts)} | _facts(metadata),
        counts={name: dict(counter.most_common()) for name, counter in tally.counts.items() if counter},
        lengths={what: length_summary(lengths) for what, lengths in tally.lengths.items() if lengths},
        shares=tally.shares(),
        passes=pass_summary([prompt.correct for prompt in tally.prompts.values() if prompt.drawn == n], n),
        examples=[{name: sample[name] for name in _SHOWN if name in sample} for sample in tally.examples.rows],
        problems=problems,
        keys=tally.keys(),
    )


class _Tally:
    def __init__(self, options: Options):
        self.rows = 0
        self.format: str | None = None
        self.columns: list[str] = []
        self.prompts: dict[int | str, _Prompt] = {}
        self.counts: dict[str, Counter[str]] = {"data_source": Counter(), "outcome": Counter()}
        self.lengths: dict[str, Counter[int]] = {
            name: Counter() for name in ("input characters", "prompt tokens", "output characters", "response tokens")
        }
        self.examples = Reservoir(options.examples, options.seed)
        self._tokenizer = options.tokenizer
        self._truncated: Counter[bool] = Counter()
        self._incomplete = self._repeated = self._misjudged = self._other_text = 0

    def add(self, sample: dict[str, Any]) -> None:
        if self.format is None:
            self.columns = list(sample)
            self.format = "ours" if sample.keys() >= REQUIRED_KEYS else "paper's"
        if not self._is_whole(sample):
            self._incomplete += 1
            return
        prompt = self._prompt(sample)
        number = sample["sample"] if self.format == "ours" else prompt.drawn
        if prompt.seen >> number & 1:
            self._repeated += 1
            return
        correct = _is_correct(sample)
        prompt.seen |= 1 << number
        prompt.drawn += 1
        prompt.correct += correct
        self.rows += 1
        self._misjudged += self.format == "ours" and correct != is_correct(sample["score"])
        self._count(sample)

    def _is_whole(self, sample: dict[str, Any]) -> bool:
        right_types = isinstance(sample["id"], int | str) and isinstance(sample["output"], str)
        right_types &= isinstance(sample["score"], int | float) and math.isfinite(sample["score"])
        right_types &= isinstance(sample.get("acc"), int | float | None)
        if self.format == "ours":
            right_types &= sample.keys() >= REQUIRED_KEYS and type(sample["sample"]) is int
            return right_types and 0 <= sample["sample"] < MOST_SAMPLES
        return right_types

    def _prompt(self, sample: dict[str, Any]) -> _Prompt:
        text = sample.get("input")
        hashed = text_hash(text) if isinstance(text, str) else None
        prompt = self.prompts.get(sample["id"])
        if prompt is None:
            prompt = self.prompts[sample["id"]] = _Prompt(hashed)
            if isinstance(text, str):
                self.lengths["input characters"][len(text)] += 1
                if self._tokenizer is not None:
                    tokens = self._tokenizer(text, add_special_tokens=False)["input_ids"]
                    self.lengths["prompt tokens"][len(tokens)] += 1
        self._other_text += hashed != prompt.text
        return prompt

    def _count(self, sample: dict[str, Any]) -> None:
        for name, counter in self.counts.items():
            if sample.get(name) is not None:
                counter[str(sample[name])] += 1
        if isinstance(sample.get("truncated"), bool):
            self._truncated[sample["truncated"]] += 1
        self.lengths["output characters"][len(sample["output"])] += 1
        if isinstance(sample.get("response_ids"), list):
            self.lengths["response tokens"][len(sample["response_ids"])] += 1
        self.examples.add(sample)

    def shares(self) -> dict[str, float]:
        total = self._truncated.total()
        return {"truncated": self._truncated[True] / total} if total else {}

    def keys(self) -> Keys:
        keys = Keys(ids=list(self.prompts))
        for id, prompt in self.prompts.items():
            if prompt.text is not None:
                keys.add_text(id, prompt.text)
        return keys

    def problems(self) -> list[str]:
        found = [
            (self._incomplete, "without a key that samples have, or with a value of another type"),
            (self._repeated, "that repeat an earlier id and sample number"),
            (self._other_text, "with another prompt text than the first sample of the id"),
            (self._misjudged, "with an acc that is not what the score says"),
        ]
        sentences = [f"{number_of(count, 'sample')} {what}." for count, what in found if count]
        return sentences + self.keys().problems("prompt") + ([] if self.rows else ["There is no sample."])


def _is_correct(sample: dict[str, Any]) -> bool:
    """By acc if there is one, else by the score."""
    return is_correct(sample["score"] if sample.get("acc") is None else sample["acc"])


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


def _parquet_samples(path: Path, problems: list[str]) -> Iterator[dict[str, Any]]:
    return parquet_rows(path, pq.read_schema(path).names, problems)


def _metadata(path: Path, problems: list[str]) -> SampleMetadata | None:
    try:
        return read_metadata(path)
    except UserError as error:
        problems.append(str(error))
        return None


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


def _completeness(prompts: dict[int | str, _Prompt], n: int, metadata: SampleMetadata | None) -> list[str]:
    problems = []
    expected = (1 << n) - 1
    odd = [id for id, prompt in prompts.items() if prompt.seen != expected]
    if odd:
        first = f"the first, id {odd[0]}, has {prompts[odd[0]].drawn}"
        have = f"{len(odd)} of {len(prompts)} prompts have other samples than 0 to {n - 1}"
        problems.append(f"{have} ({named(odd)}; {first}).")
    if metadata and len(prompts) != metadata.rows:
        problems.append(f"There are samples of {len(prompts)} prompts, but the metadata announce {metadata.rows}.")
    return problems


def _is_parquet(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"
