"""Reading samples files, written by the sampler's own writer, as arrays; one sentence for each fault."""

import numpy as np
import pytest

from rl.common.errors import UserError
from rl.data.sample_file import SampleWriter
from rl.evaluation.analysis.samples import read_judged, read_sample_set
from rl.metrics.distinct_answers import NO_VOTE
from tests import sample_files
from tests.sample_files import metadata

STYLES = ("JOIN", "IN")
# SQL, how scoring it ended, and the digest of what it returned.
SQL = [
    ("SELECT name FROM item", "match", "a"),
    ("SELECT name FROM item ORDER BY price", "match", "a"),
    ("SELECT id FROM item", "mismatch", "b"),
    ("SELECT nothing FROM item", "pred_error", None),
    (None, "no_answer", None),
    ("SELECT name FROM item", "match", "a"),
]
RESULT = [[0, 0, 1, NO_VOTE, NO_VOTE, 0]]


def record(prompt, sample, acc=0, pred="/*JOIN*/ SELECT 1", **more):
    fields = {"pred": pred, "data_source": "sql", "outcome": "mismatch"}
    return sample_files.record(prompt, sample, acc, **fields | more)


@pytest.fixture
def write(tmp_path):
    def write(records, n, rows, name="samples.jsonl"):
        described = metadata(n=n, data_files={"test.parquet": "hash"}, rows=rows)
        with SampleWriter(tmp_path / name, described) as writer:
            for one in records:
                writer.append(one)
        return tmp_path / name

    return write


def test_a_response_that_is_not_sql_has_the_style_of_its_first_word(write):
    outputs = ["First, 3 times 8 is 24.", " Let x be the number.", "**Let** x be", "letting x", "3*8=24", ""]
    records = [record(4, n, acc=1, pred="24", output=output, data_source="math") for n, output in enumerate(outputs)]
    samples = read_sample_set(write(records, n=6, rows=1), ("First", "Let"), "opening")
    np.testing.assert_array_equal(samples.style, [[0, 1, 1, 2, 2, 2]])
    assert samples.style_names == ("First", "Let", "Others") and samples.unparsed is None
    # By another rule only SQL has styles.
    assert read_sample_set(samples.path, ("First", "Let")).style_names == ()


def test_wrong_sql_votes_on_a_split_that_has_other_answers_too(write):
    """By its text, because the answers of mathematics have no results."""
    records = [
        record(prompt, n, acc=int(n == 0), pred=f"SELECT {n > 0}", result_digest=str(n > 0))
        if prompt == 4
        else record(prompt, n, acc=int(n == 0), pred=str(int(n > 0)), data_source="math")
        for prompt in (4, 9)
        for n in range(3)
    ]
    samples = read_sample_set(write(records, n=3, rows=2), ())
    np.testing.assert_array_equal(samples.answer, [[0, 1, 1], [0, 1, 1]])
    assert samples.result is samples.unparsed is None


def test_reads_in_any_order(write):
    records = [
        record(9, 1, acc=1, pred=None),
        record(4, 0, acc=1, pred="/*IN*/ SELECT 1"),
        record(9, 0, truncated=True, outcome="gold_timeout"),
        record(4, 1, score=0.6, outcome="partial"),  # partial credit is not correct
    ]
    samples = read_sample_set(write(records, n=2, rows=2), STYLES)
    np.testing.assert_array_equal(samples.ids, [4, 9])
    np.testing.assert_array_equal(samples.correct, [[True, False], [False, True]])
    np.testing.assert_array_equal(samples.style, [[1, 0], [0, 2]])
    np.testing.assert_array_equal(samples.truncated, [[False, False], [True, False]])
    assert samples.style_names == ("JOIN", "IN", "Others")
    assert (samples.n, samples.prompts, samples.gold_failures) == (2, 2, 1)
    judged = read_judged(samples.path)
    np.testing.assert_array_equal(judged.ids, samples.ids)
    np.testing.assert_array_equal(judged.correct, samples.correct)


@pytest.mark.parametrize(("samples", "n", "rows"), [((0,), 1, 2), ((0, 2), 2, 1), ((0, 1, 2), 2, 1)])
def test_incomplete_files(write, samples, n, rows):
    path = write([record(1, sample) for sample in samples], n, rows)
    for read in (read_judged, lambda path: read_sample_set(path, STYLES)):
        with pytest.raises(
            UserError, match=rf"samples.jsonl does not hold samples 0 to {n - 1} of each of the {rows} "
        ):
            read(path)


def test_results_are_the_digests_or_unknown(write):
    """Wrong SQL is parsed only if its text votes."""

    def file_of(digests):
        samples = enumerate(zip(SQL, digests, strict=True))
        records = [
            record(3, n, acc=int(outcome == "match"), pred=pred, outcome=outcome, result_digest=digest)
            for n, ((pred, outcome, _), digest) in samples
        ]
        return write(records, n=len(SQL), rows=1, name=f"{digests[0]}.jsonl")

    path = file_of([digest for *_, digest in SQL])
    known = read_sample_set(path, ())
    assert known.result.tolist() == RESULT and known.answer.tolist() == [[0, 1, NO_VOTE, NO_VOTE, NO_VOTE, 0]]
    assert read_sample_set(path, (), by_syntax=True).answer.tolist() == [[0, 1, 2, NO_VOTE, NO_VOTE, 0]]
    without = read_sample_set(file_of([None] * len(SQL)), ())
    assert without.result is None and without.answer.tolist() == [[0, 1, 2, NO_VOTE, NO_VOTE, 0]]
