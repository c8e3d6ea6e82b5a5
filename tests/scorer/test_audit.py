"""`dph audit`, as a user runs it: on parquet files and databases with good and bad gold queries."""

import csv
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow
import pytest
import yaml
from pyarrow import parquet

from rl.scorer.audit import main
from tests.scorer.conftest import RUNAWAY, SHOP, make_database, wait_until_gone

BROKEN, EMPTY, GOOD = "SELECT missing FROM items", "SELECT id FROM items WHERE id > 9", "SELECT name FROM items"

# (id, data_source, db_id, gold_sql, outcome)
QUESTIONS = [
    (10, "bird", SHOP, GOOD, "gold"),
    (11, "bird", SHOP, BROKEN, "gold_error"),
    (12, "bird", SHOP, EMPTY, "empty"),
    (13, "spider", "none/none.sqlite", GOOD, "unknown_database"),
    (14, "spider", SHOP, "DELETE FROM items", "gold_error"),
    # The same query as an earlier row's: run once, and listed again.
    (15, "bird", SHOP, BROKEN, "gold_error"),
    (16, "bird", SHOP, "SELECT max(id) FROM items WHERE id > 9", "all_null"),
    (17, "bird", "../outside.sqlite", GOOD, "unknown_database"),
    (18, "bird", None, GOOD, "unknown_database"),
    (19, "sql", SHOP, "", "gold_error"),
]
# The last one cannot be read.
MATH = ["34", r"R=1, I=(-1,1)", r"\frac{1}{"]
RUNS_AWAY = (7, "bird", SHOP, RUNAWAY, "gold_timeout")


def row(number: int, source: str, truth: object) -> dict:
    """A row in the project's format."""
    return {"id": number, "data_source": source, "reward_model": {"style": "rule", "ground_truth": truth}}


def write_rows(path: Path, rows: list[dict]) -> None:
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def write_sql(path: Path, questions: list[tuple]) -> None:
    truths = [{"db_id": db_id, "gold_sql": gold, "cmp_method": "bird"} for _, _, db_id, gold, _ in questions]
    rows = zip(questions, truths, strict=True)
    write_rows(path, [row(number, source, truth) for (number, source, *_), truth in rows])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """databases/shop/shop.sqlite, sql.parquet, math.parquet."""
    make_database(
        tmp_path / "databases" / SHOP, "CREATE TABLE items (id, name); INSERT INTO items VALUES (1, 'a'), (2, 'b');"
    )
    write_sql(tmp_path / "sql.parquet", QUESTIONS)
    write_rows(tmp_path / "math.parquet", [row(i, "math_dapo", gold) for i, gold in enumerate(MATH)])
    write_rows(tmp_path / "task.parquet", [row(i, "task:count", "34") for i in range(3)])
    return tmp_path


def start(folder: Path, *arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "rl.cli", "audit", "--database-path", "databases", *arguments]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )


def test_lists_every_question_whose_gold_is_not_as_it_should_be(folder: Path) -> None:
    write_sql(folder / "slow.parquet", [RUNS_AWAY])
    settings = {"class_name": "SqlRewardModel", "database_path": "nowhere", "gold_seconds": 0.7, "grace_seconds": 1}
    (folder / "settings.yaml").write_text(yaml.safe_dump({"Scorers": {"Scorer1": settings}}))
    write_rows(folder / "whole.parquet", [row(3, "math_dapo", 34)])  # training reads it as the text 34
    files = ("sql.parquet", "math.parquet", "whole.parquet", "slow.parquet", "task.parquet")
    process = start(folder, *files, "--config", "settings.yaml", "--workers", "2", "--out", "a.csv")
    said, progress = process.communicate()
    assert process.returncode == 0, progress
    with (folder / "a.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = [(number, "sql.parquet", db_id, sql, outcome) for number, _, db_id, sql, outcome in QUESTIONS]
    expected.append((2, "math.parquet", None, MATH[2], "gold_error"))
    expected.append((7, "slow.parquet", SHOP, RUNAWAY, "gold_timeout"))
    assert [tuple(row[name] for name in ("id", "file", "db_id", "gold_sql", "outcome")) for row in rows] == [
        (str(number), file, db_id or "", sql, outcome)
        for number, file, db_id, sql, outcome in expected
        if outcome != "gold"
    ]
    by_id = {row["id"]: row for row in rows}
    assert by_id["11"]["error"] == by_id["15"]["error"] == "no such column: missing"
    assert by_id["12"]["error"] == ""
    assert "none/none.sqlite" in by_id["13"]["error"]
    assert by_id["7"]["error"] == "timeout"
    assert "3 rows are neither SQL nor math and were not checked: task:count 3." in said
    counts = dict(line.split() for line in said.splitlines() if len(line.split()) == 2)
    assert counts == {
        "gold": "4", "empty": "1", "all_null": "1", "gold_error": "5", "gold_timeout": "1", "unknown_database": "3"
    }  # fmt: skip
    assert said.endswith("Wrote 11 rows to a.csv.\n") and "13/13" in progress
    assert sorted(path.name for path in folder.iterdir()) == sorted([*files, "a.csv", "databases", "settings.yaml"])


def test_the_failures_are_dropped_and_the_table_lies_beside_the_data(folder: Path, capsys) -> None:
    bad = [(100 + i, "bird", SHOP, f"SELECT missing{i} FROM items", "gold_error") for i in range(25)]
    write_sql(source := folder / "sql.parquet", [*QUESTIONS, *bad])
    good = folder / "good.parquet"
    content = parquet.read_table(source).replace_schema_metadata({"origin": "test"})
    parquet.write_table(content, source)
    command = [str(source), "--database-path", str(folder / "databases"), "--drop", str(good)]
    assert main(command) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-2] == f"Wrote 34 rows to {folder / 'sql.gold_audit.csv'}."
    assert said[-1] == f"Wrote 1 of 35 rows to {good}."
    assert parquet.read_table(good).equals(content.take([0]), check_metadata=True)
    assert len((folder / "sql.gold_audit.csv").read_text().splitlines()) == 35
    write_sql(source, bad)
    with pytest.raises(SystemExit):
        main(command)
    assert "would have no rows: all 25 of" in capsys.readouterr().err
    assert parquet.read_metadata(good).num_rows == 1


def test_what_cannot_be_checked_is_said_and_is_not_dropped(folder: Path) -> None:
    connection = sqlite3.connect(folder / "databases" / SHOP, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    write_sql(folder / "sql.parquet", QUESTIONS[:1])
    # In its own process: a process loses its lock when it closes the file.
    process = start(folder, "sql.parquet", "--out", "a.csv", "--drop", "good.parquet")
    _, said = process.communicate()
    connection.close()
    unwritten = "infra_error in the table), and good.parquet is not written; run the audit again.\n"
    assert process.returncode == 1 and said.endswith(f"Error: 1 questions could not be checked ({unwritten}")
    assert not (folder / "good.parquet").exists() and "database is locked" in (folder / "a.csv").read_text()


def test_an_interrupted_audit_leaves_the_table_and_no_worker(folder: Path) -> None:
    (table := folder / "a.csv").write_text("the one before")
    write_sql(folder / "slow.parquet", [RUNS_AWAY, *QUESTIONS])
    process = start(folder, "slow.parquet", "--out", "a.csv")
    seen = ""
    while "/10" not in seen:
        seen += process.stderr.read(1)
        assert process.poll() is None, seen
    workers = [worker.pid for worker in psutil.Process(process.pid).children(recursive=True)]
    assert workers
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130 and said.endswith("Interrupted.\n")
    assert table.read_text() == "the one before"
    wait_until_gone(workers)


WRONG = [
    (["task.parquet"], "none of 3 rows is a question (task:count)"),
    (["sql.parquet", "--drop", "databases/../sql.parquet"], "would replace a file of the audit; give another"),
    (["sql.parquet", "task.parquet", "--drop", "a.parquet"], "--drop takes the rows of one DATA.parquet, not of 2"),
    (["other.parquet"], "No database of the rows is found (db_id 'none/none.sqlite'"),
    (["sql.parquet", "--config", "math.yaml"], "has no scorer for SQL"),
]


def test_what_is_wrong_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(folder)
    (folder / "math.yaml").write_text("Scorers: {Scorer1: {class_name: MathRewardModel}}")
    write_sql(folder / "other.parquet", QUESTIONS[3:4])
    files = sorted(path.name for path in folder.iterdir())

    for arguments, sentence in WRONG:
        with pytest.raises(SystemExit, match="2"):
            main(["--database-path", "databases", *arguments])
        assert sentence in capsys.readouterr().err.splitlines()[-1]
        assert sorted(path.name for path in folder.iterdir()) == files
