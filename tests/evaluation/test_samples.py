"""Reading sample records: arrays from real files, and one sentence for each fault."""

import json

import numpy as np
import pytest

from verl.dph.errors import UserError
from verl.dph.evaluation.samples import read_samples, require_same_n, require_same_prompts

STYLES = ("JOIN", "IN")


def record(prompt, sample, acc=0, pred="/*JOIN*/ SELECT 1", **extra):
    return {
        "id": prompt, "sample": sample, "input": "q", "output": "a", "response_ids": [1], "score": float(acc),
        "acc": acc, "pred": pred, "outcome": "match" if acc else "mismatch", "data_source": "sql", "truncated": False,
    } | extra  # fmt: skip


@pytest.fixture
def write(tmp_path):
    def write(records, name="samples.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(r) + "\n" for r in records))
        return path

    return write


def test_reads_in_any_order(write):
    path = write(
        [
            record(9, 1, acc=1, pred=None),
            record(4, 0, acc=1, pred="/*IN*/ SELECT 1"),
            record(9, 0, truncated=True, outcome="gold_timeout"),
            record(4, 1),
        ]
    )
    samples = read_samples(path, STYLES)
    np.testing.assert_array_equal(samples.ids, [4, 9])
    np.testing.assert_array_equal(samples.correct, [[True, False], [False, True]])
    np.testing.assert_array_equal(samples.style, [[1, 0], [0, 2]])
    np.testing.assert_array_equal(samples.truncated, [[False, False], [True, False]])
    assert samples.style_names == ("JOIN", "IN", "Others")
    assert (samples.n, samples.prompts, samples.gold_failures) == (2, 2, 1)


def test_partial_credit_is_not_correct(write):
    samples = read_samples(write([record(1, 0, acc=0, score=0.6, outcome="partial")]), STYLES)
    assert not samples.correct.any()


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        ([], "holds no sample"),
        ([record(1, 0), record(1, 1), record(2, 0), record(2, 1), record(3, 0)], "1 samples of id 3 but 2 of most"),
        ([record(1, 0), record(1, 2)], "lacks sample 1 of id 1"),
        ([record(1, 0), record(1, 0)], "line 2 repeats sample 0 of id 1"),
        ([record("1", 0)], "line 1 has no whole number 'id'"),
        ([record(1, True)], "line 1 has no whole number 'sample'"),
        ([record(1, 0, acc=0.5)], "line 1 has acc 0.5"),
        ([record(1, 0, pred=7)], "no 'pred' that is text or null"),
        ([record(1, 0, truncated=None)], "no true or false 'truncated'"),
        ([record(1, 0, outcome=None)], "no text 'outcome'"),
        ([[1, 2]], "is not a JSON object"),
    ],
)
def test_faults(write, records, sentence):
    path = write(records)
    with pytest.raises(UserError, match=sentence) as error:
        read_samples(path, STYLES)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_line_that_is_not_json(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_bytes(json.dumps(record(1, 0)).encode() + b"\n\xff\xfe{\n")
    with pytest.raises(UserError, match="line 2 is not JSON"):
        read_samples(path, STYLES)


def test_missing_file(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_samples(tmp_path / "none.jsonl", STYLES)


def test_sets_that_cannot_be_compared(write):
    one = read_samples(write([record(1, 0), record(2, 0)], "one.jsonl"), STYLES)
    other = read_samples(write([record(2, 0), record(3, 0)], "other.jsonl"), STYLES)
    longer = read_samples(write([record(1, 0), record(1, 1), record(2, 0), record(2, 1)], "longer.jsonl"), STYLES)
    with pytest.raises(UserError, match="different prompts .1 missing, 1 more; the first lacks id 1"):
        require_same_prompts(other, one)
    with pytest.raises(UserError, match="2 samples a prompt and .* has 1"):
        require_same_n(longer, one)
    require_same_prompts(longer, one)
