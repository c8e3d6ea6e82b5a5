"""The tasks of Spider 2.0-Lite in their published layout."""

import json

import pytest

from rl.data.rows import read_rows
from tests.data.prepare.conftest import read_bad, write_database, write_lines


@pytest.fixture
def spider2(bird):
    """Folders as spider2-lite has them, below `bird`."""
    write_database(bird / "localdb" / "Pagila.sqlite", "CREATE TABLE film (title TEXT)")
    tasks = [
        {"instance_id": "bq011", "db": "ga4", "question": "On BigQuery?", "external_knowledge": None},
        {"instance_id": "local003", "db": "Pagila", "question": "Which film?", "external_knowledge": "rfm.md"},
        {"instance_id": "local004", "db": "Pagila", "question": "How many?", "external_knowledge": None},
        {"instance_id": "local005", "db": "Pagila", "question": "No gold?", "external_knowledge": None},
    ]
    write_lines(bird / "spider2-lite.jsonl", tasks)
    rules = [
        {"instance_id": "local003", "condition_cols": [[0], [0, 1]], "ignore_order": True, "toks": "1"},
        {"instance_id": "local004", "condition_cols": [1], "ignore_order": False, "toks": "2"},
    ]
    write_lines(bird / "gold" / "spider2lite_eval.jsonl", rules)
    (bird / "gold" / "exec_result").mkdir()
    for name in ("local003_b", "local003_a", "local004", "local0031"):
        (bird / "gold" / "exec_result" / f"{name}.csv").write_text("a,b\n1,2\n")
    (bird / "documents").mkdir()
    (bird / "documents" / "rfm.md").write_text("RFM is recency, frequency, money.")
    folders = ["--databases", "localdb", "--database-path", "."]
    return ["spider2-lite", "--input", "spider2-lite.jsonl", "--gold", "gold", *folders]


def test_spider2_lites_tasks_on_sqlite(prepare, spider2, bird):
    done = prepare(*spider2, "--documents", "documents")
    assert done.exit_code == 0 and "Wrote 2 rows to data/sql/spider2_lite_dev.parquet." in done.out, done.err
    first, second = read_rows(["data/sql/spider2_lite_dev.parquet"])
    assert (first.id, first.question["db_id"]) == (220_000_003, "localdb/Pagila.sqlite")
    assert first.question["cmp_method"] == "spider2"
    assert json.loads(first.question["gold_sql"]) == {
        "results": [
            {"file": "gold/exec_result/local003_a.csv", "columns": [0]},
            {"file": "gold/exec_result/local003_b.csv", "columns": [0, 1]},
        ],
        "ignore_order": True,
    }
    assert json.loads(second.question["gold_sql"]) == {
        "results": [{"file": "gold/exec_result/local004.csv", "columns": [1]}], "ignore_order": False
    }  # fmt: skip
    assert "RFM is recency, frequency, money." in first.messages[0]["content"]
    metadata = json.loads((bird / "data" / "sql" / "spider2_lite_dev.meta.json").read_text())
    read = ["spider2-lite.jsonl", "gold/spider2lite_eval.jsonl", "documents/rfm.md"]
    assert [source["file"] for source in metadata["inputs"]] == read
    [bad] = read_bad(bird / "data" / "sql" / "spider2_lite_dev.parquet")
    assert bad["reason"] == "its gold is missing or not a text" and bad["about"] == "No gold?"
    for arguments, sentence in (
        ([*spider2], "A task refers to rfm.md: give --documents"),
        ([*spider2, "--gold", "documents"], "--gold documents has no folder exec_result"),
        ([*spider2, "--database-path", "localdb"], "--gold gold is not below --database-path"),
        ([*spider2, "--input", "gold/spider2lite_eval.jsonl", "--documents", "documents"], ""),
    ):
        done = prepare(*arguments)
        assert done.exit_code == 2 and sentence in done.err


def test_values_of_another_type_cost_their_task_alone(prepare, spider2, bird):
    tasks = [
        {"instance_id": "local003", "db": "Pagila", "question": "Which film?", "external_knowledge": ["rfm.md"]},
        {"instance_id": "local004", "db": "Pagila", "question": "How many?"},
        {"instance_id": "local0031", "db": "Pagila", "question": "Which?"},
    ]
    write_lines(bird / "spider2-lite.jsonl", tasks)
    rules = [{"instance_id": "local003"}, {"instance_id": "local004", "condition_cols": 1}]
    write_lines(bird / "gold" / "spider2lite_eval.jsonl", rules)
    done = prepare(*spider2)
    assert done.exit_code == 0 and "Wrote 1 rows" in done.out, done.err
    listed = read_bad(bird / "data" / "sql" / "spider2_lite_dev.parquet")
    assert [bad["reason"] for bad in listed] == ["its evidence is not a text", "its gold is missing or not a text"]
