"""What predicted SQL returned, as digests: sent by the scorer, or stored by an earlier version."""

import hashlib
import json

import pytest

from rl.common.errors import UserError
from rl.data.sample_file import SampleMetadata, SampleRecord, SampleWriter
from rl.evaluation.analysis.samples import read_sample_set
from rl.metrics.distinct_answers import NO_VOTE

SAMPLES = [
    ("SELECT name FROM item", "match", "a"),
    ("SELECT name FROM item ORDER BY price", "match", "a"),
    ("SELECT id FROM item", "mismatch", "b"),
    ("SELECT nothing FROM item", "pred_error", None),
    (None, "no_answer", None),
    ("SELECT name FROM item", "match", "a"),
]
RESULT = [[0, 0, 1, NO_VOTE, NO_VOTE, 0]]


@pytest.fixture
def write(tmp_path):
    def write(digests):
        path = tmp_path / "bird.jsonl"
        metadata = SampleMetadata("m", "h", "h", 1.0, 0.95, -1, len(SAMPLES), 0, 64, {"f": "h"}, 1)
        with SampleWriter(path, metadata) as writer:
            for number, (pred, outcome, _) in enumerate(SAMPLES):
                acc = int(outcome == "match")
                record = SampleRecord(3, number, "q", "a", [1], float(acc), acc, pred, outcome, "bird", False)
                writer.append(SampleRecord(**vars(record) | {"result_digest": digests[number]}))
        return path

    return write


def test_equal_digests_are_one_result(write):
    assert read_sample_set(write([digest for _, _, digest in SAMPLES]), ()).result.tolist() == RESULT


def test_without_digests_results_are_those_stored_by_an_earlier_version_or_unknown(write):
    path = write([None] * len(SAMPLES))
    assert read_sample_set(path, ()).result is None
    lines = [
        json.dumps({"id": 3, "sql": hashlib.sha256(pred.encode()).hexdigest(), "result": digest})
        for pred, _, digest in SAMPLES[:3]
    ]
    results = path.with_suffix(".results")
    results.write_text("\n".join(lines) + "\n")
    assert read_sample_set(path, ()).result.tolist() == RESULT
    results.write_text("\n".join(lines[:2]) + "\n")
    assert read_sample_set(path, ()).result is None
    results.write_text(lines[0][:-5])
    with pytest.raises(UserError, match="is damaged or not finished"):
        read_sample_set(path, ())
