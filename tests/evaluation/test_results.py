"""What predicted queries return: run in the scorer's real workers on a real database, stored, resumed, read."""

import json

import pytest

from rl.common.errors import UserError
from rl.data.sample_file import SampleMetadata, SampleRecord, SampleWriter
from rl.evaluation.analysis import sql_results
from rl.evaluation.analysis.samples import read_sample_set
from rl.evaluation.analysis.sql_results import digest_of, query_key, read_results, results_path, store_results
from rl.metrics.distinct_answers import NO_VOTE

QUESTION = {"db_id": "shop/shop.sqlite", "gold_sql": "SELECT name FROM item", "cmp_method": "bird"}
SAMPLES = [
    ("SELECT name FROM item", "match"),
    ("SELECT name FROM item ORDER BY price", "match"),  # the same set of rows
    ("SELECT id FROM item", "mismatch"),
    ("SELECT nothing FROM item", "pred_error"),  # did not run, and is not run again
    (None, "no_answer"),
    ("SELECT name FROM item", "match"),
]


@pytest.fixture
def samples(tmp_path):
    path = tmp_path / "bird.jsonl"
    metadata = SampleMetadata("m", "h", "h", 1.0, 0.95, -1, len(SAMPLES), 0, 64, {"f": "h"}, 1)
    with SampleWriter(path, metadata) as writer:
        for number, (pred, outcome) in enumerate(SAMPLES):
            acc = int(outcome == "match")
            writer.append(SampleRecord(3, number, "q", "a", [1], float(acc), acc, pred, outcome, "bird", False))
    return path


def test_results_are_stored_once_and_read_beside_the_samples(samples, shop_databases, monkeypatch):
    assert read_sample_set(samples, ()).result is None
    store_results(samples, {3: QUESTION}, shop_databases)
    stored = results_path(samples).read_text()
    assert len(stored.splitlines()) == 3
    assert read_sample_set(samples, ()).result.tolist() == [[0, 0, 1, NO_VOTE, NO_VOTE, 0]]
    # A stop tears the last line: only that query is run again.
    results_path(samples).write_text(stored[:-5])
    with pytest.raises(UserError, match="is damaged or not finished"):
        read_results(samples)
    asked = []
    run = sql_results._result
    monkeypatch.setattr(sql_results, "_result", lambda *arguments: asked.append(arguments[-1]) or run(*arguments))
    store_results(samples, {3: QUESTION}, shop_databases)
    assert len(asked) == 1 and results_path(samples).read_text() == stored
    results_path(samples).write_text("".join(stored.splitlines(keepends=True)[:2]))
    with pytest.raises(UserError, match="lacks a query of id 3"):
        read_sample_set(samples, ())


def test_databases_that_are_not_there(samples, tmp_path):
    with pytest.raises(UserError, match="evaluate.databases=.*none is no folder"):
        store_results(samples, {3: QUESTION}, tmp_path / "none")
    with pytest.raises(UserError, match="names no file .*: set evaluate.databases to"):
        store_results(samples, {3: QUESTION}, tmp_path)


def test_equal_results_have_one_digest():
    assert digest_of([[1, "a"], [2, None]], "bird") == digest_of([[2.0, None], [1, "a"], [1, "a"]], "bird")
    assert digest_of([[1, "a"], [1, "a"]], "spider") != digest_of([[1, "a"]], "spider")
    assert digest_of([["1"]], "bird") != digest_of([[1]], "bird")
    assert digest_of([], "bird") != digest_of([[None]], "bird")


def test_a_query_is_known_by_prompt_and_text():
    assert query_key(1, "SELECT 1") != query_key(2, "SELECT 1") and query_key(1, "a") != query_key(1, "A")


def test_lines_are_json(samples, shop_databases):
    store_results(samples, {3: QUESTION}, shop_databases)
    lines = [json.loads(line) for line in results_path(samples).read_text().splitlines()]
    assert all(line["id"] == 3 and len(line["sql"]) == len(line["result"]) == 64 for line in lines)
