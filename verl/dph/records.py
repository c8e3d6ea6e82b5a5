"""Sample records: what a model answered and how it scored, one JSON line a sample.

F.jsonl is only ever appended to, so a program that dies loses at most the line it was writing; the next one cuts that
line off and goes on. F.meta.json beside it says whose the samples are; those of another model or of other settings
are not mixed in.
"""

import dataclasses
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from verl.dph.errors import UserError

FORMAT = "dph-samples/1"


@dataclass(frozen=True)
class SampleRecord:
    """One sample of one prompt."""

    id: int  # of the prompt's row
    sample: int  # 0..n-1
    input: str  # the prompt as the model saw it, chat template applied
    output: str  # the response, special tokens removed
    response_ids: list[int]  # its token ids, with the end token where there is one
    score: float
    acc: int  # 1 when score is 1 within 1e-6
    pred: str | None  # the answer that was read from output
    outcome: str  # the scorer's: match, partial, mismatch, no_answer, ...
    data_source: str
    truncated: bool  # cut off at max_response_length


@dataclass(frozen=True)
class SampleMetadata:
    """Where the samples of a file come from."""

    model: str
    model_hash: str
    tokenizer_hash: str
    temperature: float
    top_p: float
    top_k: int
    n: int  # samples a prompt
    seed: int
    max_response_length: int
    data_files: dict[str, str]  # path: sha256
    rows: int  # prompts that are sampled
    overlong_ids: list[int] = dataclasses.field(
        default_factory=list
    )  # prompts of the data files that are left out as too long

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


def read_metadata(samples: Path) -> SampleMetadata:
    """The metadata beside a samples file.

    Raises:
        UserError: missing, not JSON, of another format, or without a field.
    """
    path = metadata_path(samples)
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise UserError(f"{path}, the metadata of {samples.name}, cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise UserError(f"{path} is not JSON: sample again into another file.") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UserError(f"{path} is not of the format {FORMAT}: sample again into another file.")
    names = [field.name for field in dataclasses.fields(SampleMetadata)]
    missing = [name for name in names if name not in content]
    if missing:
        raise UserError(f"{path} lacks {', '.join(missing)}: sample again into another file.")
    return SampleMetadata(**{name: content[name] for name in names})


def read_samples(samples: Path) -> Iterator[SampleRecord]:
    """The records of a finished file, in file order, one at a time.

    Raises:
        UserError: the file is missing, a line is not a record (the torn last line of a stopped sampler among them), or
            a sample stands there twice.
    """
    seen = set()
    with _open(samples, "rb") as file:
        for number, line in enumerate(file, start=1):
            record = _parse(line)
            if record is None:
                raise UserError(f"{samples} line {number} is not a sample record: run the sampler again, it resumes.")
            if (record.id, record.sample) in seen:
                raise UserError(
                    f"{samples} line {number} repeats sample {record.sample} of id {record.id}: sample again."
                )
            seen.add((record.id, record.sample))
            yield record


class SampleWriter:
    """Appends records to a samples file, new or resumed. Use it in `with`; only one process at a time may hold a file.

    Attributes:
        done: the (id, sample) pairs that the file holds.

    Raises:
        UserError: the file belongs to other samples, is held by another process, or cannot be written.
    """

    def __init__(self, samples: Path, metadata: SampleMetadata):
        self._path = samples
        samples.parent.mkdir(parents=True, exist_ok=True)
        self._file = _open(samples, "a+b", buffering=0)
        try:
            self._lock()
            self._claim(metadata)
            self.done = self._read_done()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "SampleWriter":
        return self

    def __exit__(self, *exception) -> None:
        # A run that failed before its first sample leaves nothing behind.
        if os.fstat(self._file.fileno()).st_size == 0:
            metadata_path(self._path).unlink()
            self._path.unlink()
        self._file.close()

    def append(self, record: SampleRecord) -> None:
        """Writes one record, whole, before it returns.

        Raises:
            UserError: the disk is full or the file cannot be written.
        """
        # ASCII only: a torn line is then never half a character.
        line = json.dumps(dataclasses.asdict(record)).encode("ascii") + b"\n"
        try:
            written = self._file.write(line)
            if written != len(line):
                self._file.write(line[written:])
        except OSError as error:
            raise UserError(
                f"{self._path} cannot be written ({error.strerror}): make room and run again, it resumes."
            ) from error
        self.done.add((record.id, record.sample))

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(f"Another process is writing {self._path}: wait for it, or name another file.") from error

    def _claim(self, metadata: SampleMetadata) -> None:
        """Writes the metadata of a new file, checks those of an old one."""
        if os.fstat(self._file.fileno()).st_size == 0:
            _write_aside(metadata_path(self._path), {"format": FORMAT} | dataclasses.asdict(metadata))
            return
        difference = read_metadata(self._path).difference(metadata)
        if difference:
            raise UserError(
                f"{self._path} holds samples of another run ({difference}): name another file, or delete it and its "
                ".meta.json to sample anew."
            )

    def _read_done(self) -> set[tuple[int, int]]:
        """What the file holds; a last line that is torn is cut off."""
        done, end = set(), 0
        size = os.fstat(self._file.fileno()).st_size
        with open(self._path, "rb") as reader:
            for number, line in enumerate(reader, start=1):
                record = _parse(line)
                if record is not None:
                    done.add((record.id, record.sample))
                    end += len(line)
                elif end + len(line) < size:
                    raise UserError(f"{self._path} line {number} is not a sample record: name another file.")
        self._file.truncate(end)
        return done


def _parse(line: bytes) -> SampleRecord | None:
    """The record of one line, None when the line is none or has no end."""
    if not line.endswith(b"\n"):
        return None
    try:
        content = json.loads(line)
        record = SampleRecord(**{field.name: content[field.name] for field in dataclasses.fields(SampleRecord)})
    except (ValueError, KeyError, TypeError):
        return None
    whole_numbers = all(type(value) is int for value in (record.id, record.sample, record.acc))
    return record if whole_numbers and record.acc in (0, 1) else None


def _open(path: Path, mode: str, **options):
    try:
        return open(path, mode, **options)
    except OSError as error:
        raise UserError(f"The samples file {path} cannot be opened ({error.strerror}).") from error


def _write_aside(path: Path, content: dict) -> None:
    aside = path.with_name(path.name + ".tmp")
    aside.write_text(json.dumps(content, indent=2) + "\n")
    os.replace(aside, path)


def _comparable(name: str, value):
    return sorted(value.values()) if name == "data_files" else value
