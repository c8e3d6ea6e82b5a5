"""Other SQL benchmarks in their published layouts, corrections, audited rows, templates and retrieved values."""

import json
from dataclasses import astuple

import pyarrow.parquet as pq
import pytest

from rl.data.benchmarks import DATASETS
from rl.data.rows import read_rows
from tests.prepare.conftest import read_bad, write_database, write_lines


@pytest.fixture
def prepare(bird, monkeypatch, command):
    """Runs dph prepare in the small BIRD folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(bird)
    return lambda *words: astuple(command("prepare", *words))


def of_bird(*more) -> list:
    return ["bird", "--split", "dev", "--input", "dev.json", "--databases", "dev_databases", *more]


def contents(path) -> list[str]:
    return [row[0]["content"] for row in pq.read_table(path)["prompt"].to_pylist()]


def test_mini_dev_on_sqlite_and_postgresql(prepare):
    code, said, errors = prepare(*of_bird("--variant", "mini"))
    assert code == 0 and "Wrote 3 rows to data/sql/bird_mini_dev.parquet." in said, errors
    row = read_rows(["data/sql/bird_mini_dev.parquet"])[1]
    assert (row.id, row.data_source, row.question["db_id"]) == (160_000_001, "bird_mini", "shop/shop.sqlite")
    assert row.question["cmp_method"] == "bird"
    code, _, errors = prepare(*of_bird("--variant", "mini_pg"))
    assert code == 0, errors
    row = read_rows(["data/sql/bird_mini_pg_dev.parquet"])[0]
    assert (row.id, row.data_source, row.question["db_id"]) == (170_000_000, "bird_mini_pg", "postgresql/shop")
    content = row.messages[0]["content"]
    assert "engine:\nPostgreSQL\n" in content and '"Total (USD)" REAL' in content and "in double quotes" in content
    assert prepare(*of_bird("--variant", "mini_pg", "--db-id", "pg/BIRD"))[0] == 0
    assert {row.question["db_id"] for row in read_rows(["data/sql/bird_mini_pg_dev.parquet"])} == {"pg/BIRD"}
    code, _, errors = prepare("bird", "--split", "train", *of_bird("--variant", "mini")[3:])
    assert code == 2 and "--split is train, but bird_mini has dev: give one of them." in errors


def test_variants_of_spider(prepare, bird):
    records = [
        {"db_id": "shop", "query": "SELECT name FROM customer", "question": "Who?", "type": 34},
        {"db_id": "shop", "query": "SELECT 1", "SpiderQuestion": "Who?", "SpiderSynQuestion": "Which client?"},
    ]
    (bird / "spider.json").write_text(json.dumps(records))
    for variant, split, block, kept in (("syn", "train", 18, 1), ("syn", "dev", 19, 1), ("dk", "dev", 20, 0)):
        code, _, errors = prepare(
            *("spider", "--variant", variant, "--split", split, "--input", "spider.json"),
            *("--databases", "dev_databases", "--output", "{name}.{split}.parquet"),
        )
        assert code == 0, errors
        [row] = read_rows([f"spider_{variant}.{split}.parquet"])
        assert (row.id, row.question["cmp_method"]) == (block * 10_000_000 + kept, "spider")
    assert "Question:\nWhich client?\n" in contents("spider_syn.dev.parquet")[0]
    assert read_bad(bird / "spider_dk.dev.parquet")[0]["reason"] == "its question is missing or no text"
    blocks = [dataset.id_block for dataset in DATASETS]
    assert len(set(blocks)) == len(blocks)


def test_corrections(prepare, bird):
    fixes = [
        {"question_id": 1, "corrected_sql": "SELECT DISTINCT name FROM customer"},
        {"question_id": 2, "corrected_sql": "SELECT max(grade) FROM pupil"},
        {"question_id": 77, "corrected_sql": "SELECT 1"},
    ]
    (bird / "fixes.json").write_text(json.dumps(fixes))
    write_lines(bird / "fixes.jsonl", fixes)
    lines = ["question_id,corrected_sql", *(",".join(map(str, fix.values())) for fix in fixes)]
    (bird / "fixes.csv").write_text("\n".join(lines))
    for name in ("fixes.json", "fixes.jsonl", "fixes.csv"):
        code, _, errors = prepare(*of_bird("--corrections", name, "--output", "c.parquet"))
        assert code == 0 and f"{name} corrects 1 record that --input lacks: id 77.\n" in errors
        rows = pq.read_table("c.parquet").to_pylist()
        assert [row["reward_model"]["ground_truth"]["gold_sql"] for row in rows] == [
            "SELECT COUNT(*) FROM customer",
            "SELECT DISTINCT name FROM customer",
            "SELECT max(grade) FROM pupil",
        ]
        assert [row["extra_info"]["source"] for row in rows] == ["dev.json", name, name]
        assert json.loads((bird / "c.meta.json").read_text())["inputs"][1]["file"] == name
    for wrong, sentence in (
        ({"corrected_sql": "SELECT 1"}, "record 0 is no correction: give a question_id and a corrected_sql."),
        ({"question_id": 1, "note": "wrong"}, "record 0 is no correction"),
        ({"question_id": 9, "SQL": "SELECT 1"}, "corrects no record of --input (first 9)"),
    ):
        (bird / "fixes.json").write_text(json.dumps([wrong]))
        code, _, errors = prepare(*of_bird("--corrections", "fixes.json"))
        assert code == 2 and f"fixes.json {sentence}" in errors


def test_audited_rows_are_left_out(prepare, bird):
    table = "id,outcome\n20000000,gold_error\n20000001,tie\n20000001,distinct\n99,empty\n"
    (bird / "audit.csv").write_text(table)
    assert prepare(*of_bird("--audit", "audit.csv", "--output", "a.parquet"))[0] == 0
    assert pq.read_table("a.parquet")["id"].to_pylist() == [20_000_001, 20_000_002]
    code, said, _ = prepare(*of_bird("--audit", "audit.csv", "--drop-for", "tie", "--output", "a.parquet"))
    assert code == 0 and "       1  the audit found tie\n" in said
    assert pq.read_table("a.parquet")["id"].to_pylist() == [20_000_000, 20_000_002]
    (bird / "audit.csv").write_text("id,result\n1,x\n")
    code, _, errors = prepare(*of_bird("--audit", "audit.csv"))
    assert code == 2 and "audit.csv is no table of dph audit" in errors


OMNISQL = """\
CREATE TABLE customer (
    id INTEGER, -- example: [1, 2]
    name TEXT, -- example: ['Ann', "O'Neil"]
    joined DATE, -- example: ['2020-01-01', '2021-05-05']
    PRIMARY KEY (id)
);

CREATE TABLE `order` (
    id INTEGER, -- example: [7, 8]
    customer_id INTEGER, -- example: [1, 2]
    `Total (USD)` REAL, -- example: [9.5, 20.0]
    PRIMARY KEY (id, customer_id),
    CONSTRAINT fk_order_customer_id FOREIGN KEY (customer_id) REFERENCES customer (id)
);
This schema describes the database's structure, including"""


def test_omnisqls_template(prepare):
    assert prepare(*of_bird("--template", "omnisql", "--output", "o.parquet"))[0] == 0
    first, second, _ = contents("o.parquet")
    assert first.startswith("Task Overview:\nYou are a data science expert. Below,") and OMNISQL in first
    assert first.endswith("Take a deep breath and think step by step to find the correct SQL query.\n")
    assert "\n\nQuestion:\nan order refers to customer_id\nWho has an order?\n\nInstructions:\n" in second


def test_values_that_a_question_names_are_shown_within_their_budget(prepare, bird):
    people = ", ".join(f"({i}, 'Person number {i}', NULL)" for i in range(10, 600))
    write_database(
        bird / "dev_databases" / "shop" / "shop.sqlite",
        f"INSERT INTO customer VALUES {people}, (700, 'Zoë Brontë', NULL), (701, 'Brontë''s sister', NULL)",
    )
    records = [{"question_id": 0, "db_id": "shop", "question": "Where is zoe BRONTE?", "SQL": "SELECT 1"}]
    (bird / "dev.json").write_text(json.dumps(records))

    def shown(tokens: int, *more) -> str:
        code, _, errors = prepare(*of_bird("--value-tokens", tokens, "--output", "v.parquet", *more))
        assert code == 0, errors
        [content] = contents("v.parquet")
        return next(line for line in content.splitlines() if line.startswith("    name "))

    # The value with both words first, then the one with one of them, before the first values of the column.
    assert shown(100) == "    name TEXT, -- e.g. 'Zoë Brontë', 'Brontë''s sister', 'Ann', 'O''Neil'"
    assert shown(6) == "    name TEXT, -- e.g. 'Zoë Brontë', 'Ann', 'O''Neil'"  # 2.5 characters are a token
    assert shown(0) == "    name TEXT, -- e.g. 'Ann', 'O''Neil'"
    assert shown(100, "--example-values", 0) == "    name TEXT, -- e.g. 'Zoë Brontë', 'Brontë''s sister'"
    first = (bird / "v.parquet").read_bytes()
    shown(100, "--example-values", 0)
    assert (bird / "v.parquet").read_bytes() == first


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
    code, said, errors = prepare(*spider2, "--documents", "documents")
    assert code == 0 and "Wrote 2 rows to data/sql/spider2_lite_dev.parquet." in said, errors
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
    [bad] = read_bad(bird / "data" / "sql" / "spider2_lite_dev.parquet")
    assert bad["reason"] == "its gold is missing or no text" and bad["about"] == "No gold?"
    for arguments, sentence in (
        ([*spider2], "A task refers to rfm.md: give --documents"),
        ([*spider2, "--gold", "documents"], "--gold documents has no folder exec_result"),
        ([*spider2, "--database-path", "localdb"], "--gold gold is not below --database-path"),
        ([*spider2, "--input", "gold/spider2lite_eval.jsonl", "--documents", "documents"], ""),
    ):
        code, _, errors = prepare(*arguments)
        assert code == 2 and sentence in errors
