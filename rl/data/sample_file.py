"""Sample records: a model's responses and their scores, one JSON line per sample.

F.jsonl is append-only, so a program that dies loses at most the line it was writing; the next one cuts that line off
and resumes. F.drawn beside it holds, until all samples are there, the responses that were drawn. F.meta.json says where
the samples come from; those of another model or of other settings are not mixed in.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

from rl.common import atomic_write
from rl.common.append_log import AppendLog, open_samples
from rl.common.errors import UserError
from rl.data.json_text import loads
from rl.data.pending_responses import PendingResponse, PendingResponses

FORMAT = "dph-samples/1"
LOG_PROB_DECIMALS = 6
# Sample numbers are below this; a larger one is a damaged line.
MOST_SAMPLES = 1 << 16


@dataclass(frozen=True)
class SampleRecord:
    """One sample of one prompt."""

    id: int  # of the prompt's row
    sample: int  # 0..n-1
    input: str  # the prompt as the model saw it, chat template applied
    output: str  # the response, special tokens removed
    response_ids: list[int]  # its token ids, with the end token if there is one
    score: float
    acc: int  # 1 when score is 1 within 1e-6
    pred: str | None  # the answer extracted from output
    outcome: str  # the scorer's: match, partial, mismatch, no_answer, ...
    data_source: str
    truncated: bool  # cut off at max_response_length
    # The rollout engine's, of each response token, rounded to LOG_PROB_DECIMALS; None if they were not requested.
    response_log_probs: list[float] | None = None
    # Of what `pred` returned, equal for equal results; None if it is no SQL, did not run, or the scorer gave none.
    result_digest: str | None = None


_FIELDS = dataclasses.fields(SampleRecord)
# What every record has; older files may lack the others.
REQUIRED_KEYS = frozenset(field.name for field in _FIELDS if field.default is dataclasses.MISSING)
_OPTIONAL_KEYS = frozenset(field.name for field in _FIELDS) - REQUIRED_KEYS


@dataclass(frozen=True)
class SampleMetadata:
    """Where the samples of a file come from."""

    model: str
    model_hash: str
    tokenizer_hash: str
    temperature: float
    top_p: float
    top_k: int
    n: int  # samples per prompt
    seed: int
    max_response_length: int
    data_files: dict[str, str]  # path: sha256
    rows: int  # prompts that are sampled
    # Prompts of the data files that are left out as too long.
    overlong_ids: list[int] = dataclasses.field(default_factory=list)

    def difference(self, other: "SampleMetadata") -> str | None:
        """The first setting in which samples of `other` are not samples of this, or None. Paths do not count."""
        for field in dataclasses.fields(self):
            mine, theirs = (_comparable(field.name, getattr(meta, field.name)) for meta in (self, other))
            if field.name != "model" and mine != theirs:
                return f"{field.name} is {mine} there and {theirs} now"
        return None


def metadata_path(samples: Path) -> Path:
    """F.meta.json beside F.jsonl."""
    return samples.with_suffix(".meta.json")


def journal_path(samples: Path) -> Path:
    """F.drawn beside F.jsonl."""
    return samples.with_suffix(".drawn")


def read_metadata(samples: Path) -> SampleMetadata:
    """The metadata beside a samples file.

    Raises:
        UserError: missing, not JSON, of another format, or without a field or with a value of another type.
    """
    path = metadata_path(samples)
    try:
        content = loads(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}, the metadata of {samples.name}, cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise UserError(f"{path} is not JSON: sample again into another file.") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UserError(f"{path} is not of the format {FORMAT}: sample again into another file.")
    fields = dataclasses.fields(SampleMetadata)
    missing = [field.name for field in fields if field.name not in content]
    if missing:
        raise UserError(f"{path} lacks {', '.join(missing)}: sample again into another file.")
    for field in fields:
        if not _fits(content[field.name], field.type):
            found = str(content[field.name])[:80]
            raise UserError(f"{path}: {field.name} is {found!r}, which no run writes: sample again into another file.")
    return SampleMetadata(**{field.name: content[field.name] for field in fields})


def read_samples(samples: Path) -> Iterator[SampleRecord]:
    """The records of a finished file, in file order, one at a time.

    Raises:
        UserError: the file is missing, a line is not a record (the torn last line of a stopped sampler among them), or
            a sample is duplicated.
    """
    seen = set()
    with open_samples(samples, "rb") as file:
        for number, line in enumerate(file, start=1):
            record = _parse(line) if line.endswith(b"\n") else None
            if record is None:
                raise UserError(f"{samples} line {number} is not a sample record: re-run the sampler to resume.")
            if (record.id, record.sample) in seen:
                raise UserError(
                    f"{samples} line {number} repeats sample {record.sample} of id {record.id}: sample again."
                )
            seen.add((record.id, record.sample))
            yield record


class SampleWriter:
    """Writes a samples file, new or resumed. Use it in `with`; only one process at a time may hold a file.

    Attributes:
        done: the (id, sample) pairs that the file holds.

    Raises:
        UserError: the file belongs to other samples, is held by another process, is damaged before its last line, or
            cannot be written.
    """

    def __init__(self, samples: Path, metadata: SampleMetadata):
        self._path, self._wanted = samples, metadata.rows * metadata.n
        samples.parent.mkdir(parents=True, exist_ok=True)
        self._file = AppendLog(samples)
        try:
            self._claim(metadata)
            self.done = {(record.id, record.sample) for record in self._file.read(_parse)}
            self._pending = PendingResponses(journal_path(samples), self.done)
        except BaseException:
            self._file.close()
            raise

    @property
    def waiting(self) -> Mapping[tuple[int, int], PendingResponse]:
        """The responses that were drawn and have no record, by (id, sample)."""
        return self._pending.waiting

    @property
    def seconds(self) -> float:
        """Sampling time of the file in all runs together, as far as its responses say."""
        return self._pending.seconds

    def __enter__(self) -> "SampleWriter":
        return self

    def __exit__(self, *exception) -> None:
        if len(self.done) == self._wanted:
            self._pending.delete()
        # A run that failed before its first response leaves nothing behind.
        if self._file.size == 0 and not self.waiting:
            metadata_path(self._path).unlink()
            self._pending.delete()
            self._file.delete()
        self._pending.close()
        self._file.close()

    def keep(self, response: PendingResponse) -> None:
        """Write a response down until it has its record.

        Raises:
            UserError: see append.
        """
        self._pending.add(response)

    def append(self, record: SampleRecord) -> None:
        """Write one record, whole, before returning.

        Raises:
            UserError: the disk is full or the file cannot be written.
        """
        # ASCII only: a torn line is then never half a character.
        self._file.append(json.dumps(vars(record)).encode("ascii") + b"\n")
        self.done.add((record.id, record.sample))
        self._pending.waiting.pop((record.id, record.sample), None)

    def _claim(self, metadata: SampleMetadata) -> None:
        """Write the metadata of a new file, check those of an old one."""
        journal = journal_path(self._path)
        drawn = journal.exists() and journal.stat().st_size > 0 and metadata_path(self._path).exists()
        if self._file.size == 0 and not drawn:
            journal.unlink(missing_ok=True)  # of a file that was deleted
            _write_metadata(metadata_path(self._path), {"format": FORMAT} | dataclasses.asdict(metadata))
            return
        difference = read_metadata(self._path).difference(metadata)
        if difference:
            raise UserError(
                f"{self._path} holds samples of another run ({difference}): name another file, or delete it and its "
                ".meta.json and .drawn to sample again."
            )


def _parse(line: bytes) -> SampleRecord | None:
    """The record of one line, None if it is not one. Keys that older files lack have their defaults."""
    try:
        content = loads(line)
        keys = REQUIRED_KEYS | (_OPTIONAL_KEYS & content.keys())
        record = SampleRecord(**{name: content[name] for name in keys})
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    whole_numbers = all(type(value) is int for value in (record.id, record.sample, record.acc))
    return record if whole_numbers and record.acc in (0, 1) and 0 <= record.sample < MOST_SAMPLES else None


def _fits(value: Any, kind: Any) -> bool:
    """Whether a JSON value is of a field's type, such as dict[str, str]."""
    if arguments := get_args(kind):
        parts = value.values() if isinstance(value, dict) else value
        return isinstance(value, get_origin(kind)) and all(_fits(part, arguments[-1]) for part in parts)
    return isinstance(value, int | float if kind is float else kind) and not isinstance(value, bool)


def _write_metadata(path: Path, content: dict) -> None:
    try:
        atomic_write.write_text(path, json.dumps(content, indent=2) + "\n")
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror}): make room and re-run the same command."
        ) from error


def _comparable(name: str, value):
    return sorted(value.values()) if name == "data_files" else value
