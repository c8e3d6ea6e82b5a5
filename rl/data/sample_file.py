"""Sample records: a model's responses and their scores, one JSON line per sample.

F.jsonl is append-only: a program that dies loses at most the line it was writing, which the next program cuts off.
F.drawn beside it keeps every response of the engine until the file is complete, so that none is drawn twice; responses
that already have a record in F.jsonl are skipped. F.meta.json says where the samples come from, so that samples of
another model or other settings are rejected.
"""

import dataclasses
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from rl.common import atomic_write
from rl.common.append_log import AppendLog
from rl.common.errors import UserError, file_errors
from rl.common.fingerprint import short
from rl.data.json_text import line_of, loads_or_none, record_of
from rl.data.metadata_file import check_metadata, metadata_path

FORMAT = "dph-samples/1"
LOG_PROB_DECIMALS = 6
# The outcome of samples of prompts without ground truth, and in the metadata their scorer.
UNJUDGED = "unjudged"
# Sample numbers are below this; a line with a larger one is damaged.
MOST_SAMPLES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Response:
    """The engine's response to one request."""

    id: int  # of the prompt's row
    sample: int  # 0..n-1
    response_ids: list[int]  # token ids, with the end token if there is one
    # The rollout engine's log-prob of each response token, rounded to LOG_PROB_DECIMALS; None if not requested.
    response_log_probs: list[float] | None = None

    def drawn(self) -> dict[str, Any]:
        """These fields, without those of a subclass."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(Response)}


@dataclass(frozen=True, kw_only=True)
class PendingResponse(Response):
    """A response that has no score yet."""

    seconds: float  # sampling time before it arrived, over all runs


@dataclass(frozen=True)
class SampleRecord(Response):
    """One sample of one prompt."""

    input: str  # the prompt as the model saw it, chat template applied
    output: str  # the response, special tokens removed
    score: float | None  # None of a prompt without ground truth
    acc: int | None  # 1 when score is 1 within 1e-6; None without a score
    pred: str | None  # the answer extracted from output
    outcome: str  # the scorer's: match, partial, mismatch, no_answer, ...; or UNJUDGED
    data_source: str
    truncated: bool  # cut off at max_response_length
    # A digest of the result of `pred`, equal for equal results; None without a result or if the scorer sent no digest.
    result_digest: str | None = None
    result_rows: int | None = None  # number of rows of that result

    @property
    def solves(self) -> bool:
        """Whether it is correct and whole, as the refinement asks."""
        return self.acc == 1 and not self.truncated


@dataclass(frozen=True)
class SampleMetadata:
    """Where the samples of a file come from."""

    model: str
    model_hash: str
    tokenizer_hash: str
    temperature: float
    top_p: float
    top_k: int
    n: Annotated[int, Field(ge=1, le=MOST_SAMPLES)]  # samples per prompt
    seed: int
    max_response_length: int
    data_files: dict[str, str]  # path: sha256
    rows: int  # prompts that are sampled
    overlong_ids: list[int]  # prompts of the data files that are left out because they are too long
    chat_template: str  # what besides the tokenizer's own template changes prompts (verl/dph/sampling/job.py)
    # The rollout engine, its dtype, and what else changes its responses (verl/dph/sampling/job.py): "vllm bfloat16".
    engine: str
    config_hash: str  # what the model computes and where a response ends (fingerprint.py)
    # What decides the scorer's verdicts (GET /v1/info, verdict_sha256); "" before it is asked, UNJUDGED without one.
    scorer: str = ""

    def difference(self, other: "SampleMetadata", besides: Collection[str] = ()) -> str | None:
        """The first setting that forbids mixing these samples with those of `other`, or comparing them, or None.

        Paths do not count, nor does a scorer that one of them has not asked yet.

        Args:
            besides: further settings that may differ.

        Returns:
            The setting with both values: "temperature 1.0, not 0.6".
        """
        for name, mine in vars(self).items():
            theirs = getattr(other, name)
            if name in ("model", *besides) or mine == theirs or (name == "scorer" and "" in (mine, theirs)):
                continue
            if name == "data_files":
                if sorted(mine.values()) == sorted(theirs.values()):
                    continue
                mine, theirs = (", ".join(f"{path} ({sha256})" for path, sha256 in of.items()) for of in (mine, theirs))
            return f"{name} {short(mine)}, not {short(theirs)}"
        return None


_METADATA = TypeAdapter(SampleMetadata)
# The fields that say which model drew the samples.
HASHES = ("model_hash", "tokenizer_hash", "config_hash")


def journal_path(samples: Path) -> Path:
    """F.drawn beside F.jsonl."""
    return samples.with_suffix(".drawn")


def refinement_samples(store: Path) -> Path:
    """The refinement's samples, beside the D_pef store that is made of them."""
    return store.with_suffix(".samples.jsonl")


def check_name(samples: Path) -> None:
    """Reject a name under which samples cannot be written."""
    if samples.suffix != ".jsonl":  # files of other names would share the metadata
        raise UserError(f"{samples} does not end in .jsonl, as files of samples do: give another name.")
    check_metadata(samples, FORMAT)


def holds_samples_of(samples: Path, metadata: SampleMetadata) -> bool:
    """Whether samples or responses of the run are kept in or beside the file."""
    scored, drawn = (path.exists() and path.stat().st_size > 0 for path in (samples, journal_path(samples)))
    if not scored and not (drawn and metadata_path(samples).exists()):
        return False
    difference = read_metadata(samples).difference(metadata)
    if difference:
        raise UserError(
            f"{samples} holds samples of another run ({difference}): name another file, or delete it and its "
            ".meta.json and .drawn to sample again."
        )
    return True


def read_metadata(samples: Path) -> SampleMetadata:
    """The metadata beside a samples file."""
    path = metadata_path(samples)
    with file_errors(f"{path}, the metadata of {samples.name},", "read", "copy it too, or sample again"):
        if not (path.exists() or samples.exists()):
            raise UserError(f"There are no samples at {samples}: draw them first (dph presample sampling).")
        text = path.read_bytes()
    content = loads_or_none(text)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UserError(f"{path} is not of the format {FORMAT}: sample again into another file.")
    try:
        return _METADATA.validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: {key} is wrong ({first['msg']}): sample again into another file.") from error


def read_samples(samples: Path) -> Iterator[SampleRecord]:
    """The records of a finished file, in file order, one at a time."""
    seen = set()
    with file_errors(samples, "read"), open(samples, "rb") as file:
        for number, line in enumerate(file, start=1):
            record = parse_sample(line)
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
        done: the (id, sample) pairs in the file.
        waiting: the drawn responses without a record, by (id, sample).
        seconds: the file's sampling time over all runs, as its responses record it.

    Raises:
        UserError: the file belongs to other samples, its metadata to another kind of file, another process writes it,
            it is damaged before its last line, or it cannot be written.
    """

    def __init__(self, samples: Path, metadata: SampleMetadata):
        check_name(samples)
        self._path, self._wanted = samples, metadata.rows * metadata.n
        with file_errors(samples.parent, "made", "name another file"):
            samples.parent.mkdir(parents=True, exist_ok=True)
        self._file = AppendLog(samples)
        self._journal: AppendLog | None = None  # opened at the first response
        self.waiting: dict[tuple[int, int], PendingResponse] = {}
        self.seconds = 0.0
        try:
            self._claim(metadata)
            self.done = {(record.id, record.sample) for record in self._file.read(parse_sample)}
            if journal_path(samples).exists():
                self._journal = AppendLog(journal_path(self._path))
                for response in self._journal.read(_parse_pending):
                    self._wait_for(response)
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> "SampleWriter":
        return self

    def __exit__(self, *exception) -> None:
        # A run that fails before its first response leaves no file.
        empty = self._file.size == 0 and not self.waiting
        if self._journal is not None and (empty or len(self.done) == self._wanted):
            self._journal.delete()
        if empty:
            metadata_path(self._path).unlink()
            self._file.delete()
        self._close()

    def keep(self, response: PendingResponse) -> None:
        """Keep a response on the disk until it has its record."""
        if self._journal is None:
            self._journal = AppendLog(journal_path(self._path))
        self._journal.append(line_of(response))
        self._wait_for(response)

    def append(self, record: SampleRecord) -> None:
        """Write one record, whole, before returning."""
        self._file.append(line_of(record))
        self.done.add((record.id, record.sample))
        self.waiting.pop((record.id, record.sample), None)

    def judged_by(self, scorer: str) -> None:
        """Note what decides the verdicts of the samples that follow; "" if the server does not say.

        If the server of the first samples did not say, the next server that says counts for them, too.
        """
        stored = read_metadata(self._path)
        if self.done and "" not in (stored.scorer, scorer) and stored.scorer != scorer:
            raise UserError(
                f"{self._path} holds {len(self.done)} samples that a scorer with other settings judged (verdict_sha256 "
                f"was {short(stored.scorer)} and is {short(scorer)}): start the scorer as before, or name another file."
            )
        if not self.done or not stored.scorer:
            self._write_metadata(dataclasses.replace(stored, scorer=scorer))

    def _wait_for(self, response: PendingResponse) -> None:
        self.seconds = response.seconds
        if (response.id, response.sample) not in self.done:
            self.waiting[response.id, response.sample] = response

    def _close(self) -> None:
        for log in (self._file, self._journal):
            if log is not None:
                log.close()

    def _claim(self, metadata: SampleMetadata) -> None:
        """Write the metadata of a new file, or check the metadata of an old one."""
        if not holds_samples_of(self._path, metadata):
            journal_path(self._path).unlink(missing_ok=True)  # its samples file was deleted
            self._write_metadata(metadata)

    def _write_metadata(self, metadata: SampleMetadata) -> None:
        content = {"format": FORMAT} | dataclasses.asdict(metadata)
        atomic_write.write_text(metadata_path(self._path), json.dumps(content, indent=2) + "\n")


def parse_sample(line: bytes) -> SampleRecord | None:
    """The record of one line; None if it is damaged, or torn before its line break."""
    record = record_of(SampleRecord, line) if line.endswith(b"\n") else None
    if record is None or not all(type(value) is int for value in (record.id, record.sample)):
        return None
    is_judged = type(record.acc) is int and record.acc in (0, 1)
    has_verdict = record.acc is None if record.outcome == UNJUDGED else is_judged
    return record if has_verdict and 0 <= record.sample < MOST_SAMPLES else None


def _parse_pending(line: bytes) -> PendingResponse | None:
    response = record_of(PendingResponse, line)
    if response is None or type(response.id) is not int or type(response.sample) is not int:
        return None
    return response if isinstance(response.response_ids, list) and isinstance(response.seconds, int | float) else None
