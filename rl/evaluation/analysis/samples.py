"""Sample records of one model on one split as arrays: every prompt has samples 0..n-1, once each."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from tqdm import tqdm

from rl.common.errors import UserError
from rl.common.outcomes import GOLD_FAILURES
from rl.data.questions import answer_kind
from rl.data.sample_file import SampleMetadata, SampleRecord, read_metadata, read_samples
from rl.evaluation.analysis.sql_results import UNKNOWN, result_of, stored_results
from rl.metrics.distinct_answers import answer_classes, answer_key
from rl.metrics.distinct_n import distinct_n
from rl.metrics.styles import BY_PREFIX, OTHERS, announces_styles, styled

T = TypeVar("T")

# Responses per prompt whose texts are kept for the report, and the length at which they are cut.
KEPT_RESPONSES = 8
KEPT_CHARACTERS = 4_000
_LOOKED_AT = 512  # samples that decide whether styles are announced


@dataclass(frozen=True)
class JudgedSamples:
    """Correctness of one model's samples on one split. P prompts, n samples per prompt."""

    path: Path
    metadata: SampleMetadata
    ids: np.ndarray  # [P] int64, ascending
    correct: np.ndarray  # [P, n] bool, by sample number

    @property
    def n(self) -> int:
        return self.correct.shape[1]

    @property
    def prompts(self) -> int:
        return self.correct.shape[0]


@dataclass(frozen=True)
class Response:
    """What a reader sees of a response."""

    pred: str | None
    outcome: str
    rows: int | None  # of the result of SQL


@dataclass(frozen=True)
class SampleSet(JudgedSamples):
    """Everything that is measured on one model's samples of one split."""

    style: np.ndarray  # [P, n] int, index into style_names; all 0 if the task has no styles
    style_names: tuple[str, ...]  # the known styles, then OTHERS; empty if the task has no styles
    truncated: np.ndarray  # [P, n] bool, the response hit its length limit
    gold_failures: int  # samples whose reference query failed: they count as wrong
    answer: np.ndarray  # [P, n] int, equivalent answers to a prompt have equal numbers; NO_VOTE for none
    result: np.ndarray | None  # [P, n] int, the same for equal results of SQL; None if not all are known
    tokens: np.ndarray  # [P, n] int, response length
    distinct_n: np.ndarray  # [P, 4] float, over a prompt's responses together, for n = 1..4
    unparsed: int | None  # correct SQL that sqlglot cannot parse, compared by its text; None for other tasks
    responses: list[list[Response]]  # the first KEPT_RESPONSES of each prompt


@dataclass(frozen=True)
class _Sample:
    """The part of a record that is needed: a whole file's texts would not fit into memory."""

    correct: bool
    style: int
    truncated: bool
    gold_failure: bool
    answer: str | None
    result: str | None
    response_ids: array
    unparsed: bool | None  # None if it is not SQL
    response: Response | None


def read_judged(path: Path) -> JudgedSamples:
    """Read a finished samples file and its metadata for Pass@k alone, without parsing answers.

    Raises:
        UserError: as read_sample_set.
    """
    metadata = read_metadata(path)
    by_prompt: dict[int, dict[int, bool]] = {}
    for record in _records(path, metadata):
        by_prompt.setdefault(record.id, {})[record.sample] = _is_correct(record)
    ids, rows = _in_order(path, metadata, by_prompt)
    return JudgedSamples(path, metadata, ids, np.array(rows))


def read_sample_set(path: Path, styles: Sequence[str], styles_by: str = BY_PREFIX) -> SampleSet:
    """Read a finished samples file and its metadata.

    Args:
        path: JSONL of sample records.
        styles: the known styles; empty for a task without styles. Only SQL has styles.
        styles_by: where a style is read from (styles.styled).

    Raises:
        UserError: a file is missing or invalid, or lacks a prompt or sample that its metadata promise.
    """
    metadata = read_metadata(path)
    names = (*styles, OTHERS) if styles else ()
    by_prompt: dict[int, dict[int, _Sample]] = {}
    stored = stored_results(path)
    for record in _records(path, metadata):
        by_prompt.setdefault(record.id, {})[record.sample] = _needed(
            record, names, styles_by, result_of(record, stored)
        )
    ids, rows = _in_order(path, metadata, by_prompt)
    unparsed = [sample.unparsed for row in rows for sample in row]
    all_sql = None not in unparsed
    results_known = all_sql and not any(sample.result == UNKNOWN for row in rows for sample in row)
    return SampleSet(
        path=path,
        metadata=metadata,
        ids=ids,
        correct=np.array([[sample.correct for sample in row] for row in rows]),
        style=np.array([[sample.style for sample in row] for row in rows]),
        style_names=names if all_sql else (),
        truncated=np.array([[sample.truncated for sample in row] for row in rows]),
        gold_failures=sum(sample.gold_failure for row in rows for sample in row),
        answer=np.array([answer_classes([sample.answer for sample in row]) for row in rows]),
        result=np.array([answer_classes([s.result for s in row]) for row in rows]) if results_known else None,
        tokens=np.array([[len(sample.response_ids) for sample in row] for row in rows]),
        distinct_n=np.array([distinct_n([sample.response_ids for sample in row]) for row in rows]),
        unparsed=unparsed.count(True) if all_sql else None,
        responses=[[sample.response for sample in row[:KEPT_RESPONSES] if sample.response] for row in rows],
    )


def require_same_prompts(samples: JudgedSamples, reference: JudgedSamples) -> None:
    """Raise UserError unless both sets hold the same prompts, so that they can be compared in pairs."""
    missing = np.setdiff1d(reference.ids, samples.ids)
    surplus = np.setdiff1d(samples.ids, reference.ids)
    if missing.size or surplus.size:
        example = f"lacks id {missing[0]}" if missing.size else f"adds id {surplus[0]}"
        raise UserError(
            f"{samples.path} and {reference.path} hold different prompts ({missing.size} missing, {surplus.size} more; "
            f"the first {example}): sample both on the same data file."
        )


def _records(path: Path, metadata: SampleMetadata) -> Iterator[SampleRecord]:
    total = metadata.rows * metadata.n
    return tqdm(read_samples(path), f"Reading {path.name}", total, unit="sample", delay=5, leave=False, disable=None)


def _is_correct(record: SampleRecord) -> bool:
    return record.acc == 1


def _in_order(
    path: Path, metadata: SampleMetadata, by_prompt: dict[int, dict[int, T]]
) -> tuple[np.ndarray, list[list[T]]]:
    """[P] ids, ascending, and each prompt's samples, by number."""
    _require_complete(path, metadata, by_prompt)
    ids = sorted(by_prompt)
    return np.array(ids, dtype=np.int64), [[by_prompt[i][s] for s in range(metadata.n)] for i in ids]


def _needed(record: SampleRecord, names: tuple[str, ...], styles_by: str, result: str | None) -> _Sample:
    kind = answer_kind(record.data_source)
    sql = kind == "sql"
    unparsed = sql and _is_correct(record) and _is_unparsed(record.pred)
    return _Sample(
        correct=_is_correct(record),
        style=names.index(styled(record.pred, names[:-1], styles_by)) if names and sql else 0,
        truncated=record.truncated,
        gold_failure=record.outcome in GOLD_FAILURES,
        answer=answer_key(record.pred, record.outcome, kind),
        result=result,
        response_ids=array("i", record.response_ids),
        unparsed=unparsed if sql else None,
        response=_kept(record) if record.sample < KEPT_RESPONSES else None,
    )


def _kept(record: SampleRecord) -> Response:
    return Response(record.pred and record.pred[:KEPT_CHARACTERS], record.outcome, record.result_rows)


def styles_are_announced(path: Path, styles: Sequence[str]) -> bool:
    """Whether most queries among the first samples of a file begin with a comment that names a style."""
    first = islice(read_samples(path), _LOOKED_AT)
    return announces_styles([record.pred for record in first if record.pred], tuple(styles))


def _is_unparsed(pred: str | None) -> bool:
    from rl.metrics.sql_structure import canonical_sql  # sqlglot loads slowly

    return canonical_sql(pred or "") is None


def _require_complete(path: Path, metadata: SampleMetadata, by_prompt: Mapping[int, Mapping[int, object]]) -> None:
    n = metadata.n
    for prompt, samples in by_prompt.items():
        if len(samples) != n or samples.keys() != set(range(n)):
            absent = sorted(set(range(n)) - samples.keys())
            fault = f"lacks sample {absent[0]}" if absent else f"has samples beyond 0..{n - 1}"
            raise UserError(
                f"{path}: id {prompt} {fault} of the {n} in its metadata; sample again (a stopped run resumes)."
            )
    if not by_prompt or len(by_prompt) != metadata.rows:
        raise UserError(
            f"{path} holds {len(by_prompt)} of the {metadata.rows} prompts in its metadata; sample again (a stopped "
            "run resumes)."
        )
