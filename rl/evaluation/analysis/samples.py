"""Sample records of one model on one split as arrays: every prompt has samples 0..n-1, once each."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from tqdm import tqdm

from rl.common.errors import UserError
from rl.common.outcomes import COMPARED, GOLD_FAILURES
from rl.data.questions import answer_kind
from rl.data.sample_file import HASHES, UNJUDGED, SampleMetadata, SampleRecord, read_metadata, read_samples
from rl.metrics.distinct_answers import answer_classes, answer_key
from rl.metrics.styles import BY_OPENING, BY_PREFIX, OTHERS, announces_styles, styled

T = TypeVar("T")

# Responses per prompt whose texts are kept for the report, and the length at which they are cut.
KEPT_RESPONSES = 8
KEPT_CHARACTERS = 4_000
# Models and seeds may differ, scorers are compared over all methods of a report, and the prompts by their ids.
_COMPARED_ELSEWHERE = (*HASHES, "seed", "scorer", "rows", "overlong_ids")
_LOOKED_AT = 512  # samples that are read to decide whether SQL names its style in a comment
_UNKNOWN = "unknown"  # the result of a query without a digest


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
class ShownResponse:
    """The part of a response that the report shows."""

    pred: str | None
    outcome: str
    rows: int | None  # number of rows that the SQL returned


@dataclass(frozen=True)
class SampleSet(JudgedSamples):
    """One model's samples on one split, with everything that is measured on them."""

    style: np.ndarray  # [P, n] int, index into style_names; all 0 if the task has no styles
    style_names: tuple[str, ...]  # the known styles, then OTHERS; empty if the task has no styles
    truncated: np.ndarray  # [P, n] bool, the response hit its length limit
    gold_failures: int  # samples whose reference query failed: they count as wrong
    # [P, n] int, equivalent answers to a prompt have equal numbers; NO_VOTE for no answer, and for wrong SQL if results
    # are stored: it then votes by its result, because its text is slow to parse.
    answer: np.ndarray
    result: np.ndarray | None  # [P, n] int, the same for results of SQL; None if not all results are known
    tokens: np.ndarray  # [P, n] int, response length
    unparsed: int | None  # correct SQL that sqlglot cannot parse, compared by its text; None for other tasks
    responses: list[list[ShownResponse]]  # the first KEPT_RESPONSES of each prompt


@dataclass(frozen=True)
class _Sample:
    """The part of a record that is kept, because the texts of a whole file would not fit into memory."""

    correct: bool
    style: int
    truncated: bool
    gold_failure: bool
    answer: str | None
    result: str | None
    tokens: int
    unparsed: bool | None  # None if it is not SQL
    response: ShownResponse | None


def read_judged(path: Path) -> JudgedSamples:
    """Read a finished samples file for Pass@k only, without parsing answers."""
    metadata, ids, rows = _read(path, lambda record: record.acc == 1)
    return JudgedSamples(path, metadata, ids, np.array(rows))


def read_sample_set(
    path: Path, styles: Sequence[str], styles_by: str = BY_PREFIX, by_syntax: bool = False
) -> SampleSet:
    """Read a finished samples file and its metadata.

    Args:
        path: JSONL of sample records.
        styles: the known styles; empty for a task without styles. Other responses than SQL have styles BY_OPENING only.
        styles_by: what a style is read from (styles.styled).
        by_syntax: also give wrong SQL its `answer` where the results of all queries are stored.
    """
    names = (*styles, OTHERS) if styles else ()
    metadata, ids, prompts = _read(path, lambda record: _needed(record, names, styles_by, by_syntax))

    def column(name: str) -> list[list]:
        return [[getattr(sample, name) for sample in prompt] for prompt in prompts]

    unparsed = [flag for row in column("unparsed") for flag in row]
    all_sql = None not in unparsed
    results = column("result")
    results_known = all_sql and not any(_UNKNOWN in row for row in results)
    if {*unparsed} != {None} and not (results_known or by_syntax):
        return read_sample_set(path, styles, styles_by, by_syntax=True)
    return SampleSet(
        path=path,
        metadata=metadata,
        ids=ids,
        correct=np.array(column("correct")),
        style=np.array(column("style")),
        style_names=names if all_sql or styles_by == BY_OPENING else (),
        truncated=np.array(column("truncated")),
        gold_failures=int(np.sum(column("gold_failure"))),
        answer=np.array([answer_classes(row) for row in column("answer")]),
        result=np.array([answer_classes(row) for row in results]) if results_known else None,
        tokens=np.array(column("tokens")),
        unparsed=unparsed.count(True) if all_sql else None,
        responses=[[shown for shown in row[:KEPT_RESPONSES] if shown] for row in column("response")],
    )


def require_comparable(samples: JudgedSamples, reference: JudgedSamples, besides: Collection[str] = ()) -> None:
    """Raise UserError unless both sets hold the same prompts of the same files, sampled with the same settings.

    Ids alone do not say it: a corrected file has the same ids and other reference answers.

    Args:
        besides: settings that may differ, and so may _COMPARED_ELSEWHERE.
    """
    if difference := samples.metadata.difference(reference.metadata, (*_COMPARED_ELSEWHERE, *besides)):
        raise UserError(
            f"{samples.path} was sampled with {difference} like {reference.path}: sample both on the same data file "
            "with the same settings."
        )
    if (different := np.setxor1d(reference.ids, samples.ids)).size:
        raise UserError(
            f"{samples.path} and {reference.path} hold different prompts ({different.size} are in one of them alone, "
            f"such as id {different[0]}): sample both on the same data file."
        )


def styles_are_announced(path: Path, styles: Sequence[str]) -> bool:
    """Whether most queries among the first samples of a file begin with a comment that names a style."""
    first = islice(read_samples(path), _LOOKED_AT)
    return announces_styles([record.pred for record in first if record.pred], tuple(styles))


def _read(path: Path, of: Callable[[SampleRecord], T]) -> tuple[SampleMetadata, np.ndarray, list[list[T]]]:
    """The metadata, [P] ascending ids, and for each prompt what `of` makes of its records, by sample number."""
    metadata = read_metadata(path)
    if metadata.scorer == UNJUDGED:
        raise UserError(f"{path} holds samples of prompts without ground truth, which were not judged: name others.")
    n = metadata.n
    records = read_samples(path)
    unfinished: dict[int, dict[int, T]] = {}
    finished: dict[int, list[T]] = {}
    total = metadata.rows * n
    for record in tqdm(records, f"Reading {path.name}", total, unit="sample", delay=5, leave=False, disable=None):
        samples = unfinished.setdefault(record.id, {})
        samples[record.sample] = of(record)
        if len(samples) == n and samples.keys() == set(range(n)):
            finished[record.id] = [samples[number] for number in range(n)]
            del unfinished[record.id]
    if unfinished or not finished or len(finished) != metadata.rows:
        raise UserError(
            f"{path} does not hold samples 0 to {n - 1} of each of the {metadata.rows} prompts in its metadata (of "
            f"{len(finished)} it does); sample again (a stopped run resumes)."
        )
    ids = sorted(finished)
    return metadata, np.array(ids, dtype=np.int64), [finished[id] for id in ids]


def _needed(record: SampleRecord, names: tuple[str, ...], styles_by: str, by_syntax: bool) -> _Sample:
    kind, correct, pred = answer_kind(record.data_source), record.acc == 1, record.pred
    sql, opening = kind == "sql", styles_by == BY_OPENING
    text = record.output if opening else pred
    unparsed = None
    if sql:
        from rl.metrics.sql_structure import canonical_sql  # sqlglot loads slowly

        unparsed = correct and canonical_sql(pred or "") is None
    shown = ShownResponse(pred and pred[:KEPT_CHARACTERS], record.outcome, record.result_rows)
    return _Sample(
        correct=correct,
        style=names.index(styled(text, names[:-1], styles_by)) if names and (sql or opening) else 0,
        truncated=record.truncated,
        gold_failure=record.outcome in GOLD_FAILURES,
        answer=answer_key(pred, record.outcome, kind) if correct or by_syntax or not sql else None,
        result=_result_of(record),
        tokens=len(record.response_ids),
        unparsed=unparsed,
        response=shown if record.sample < KEPT_RESPONSES else None,
    )


def _result_of(record: SampleRecord) -> str | None:
    """The digest of a query's result; None if it returned no result, _UNKNOWN if the record has no digest."""
    if record.pred is None or record.outcome not in COMPARED:
        return None
    return record.result_digest or _UNKNOWN
