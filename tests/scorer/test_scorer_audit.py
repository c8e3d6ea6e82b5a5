"""python -m rl.scorer.audit, as a user runs it: on parquet files and databases with good and bad gold queries."""

import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import yaml

from rl.scorer.audit.options import main
from rl.scorer.audit.variants import with_tie_breaks

BROKEN, EMPTY, GOOD = "SELECT missing FROM items", "SELECT id FROM items WHERE id > 9", "SELECT name FROM items"

# (id, data_source, db_id, gold_sql, outcome)
QUESTIONS = [
    (10, "bird", "shop/shop.sqlite", GOOD, "gold"),
    (11, "bird", "shop/shop.sqlite", BROKEN, "gold_error"),
    (12, "bird", "shop/shop.sqlite", EMPTY, "empty"),
    (13, "spider", "none/none.sqlite", GOOD, "unknown_database"),
    (14, "spider", "shop/shop.sqlite", "DELETE FROM items", "gold_error"),
    # The same query as an earlier row's: run once, and listed again.
    (15, "bird", "shop/shop.sqlite", BROKEN, "gold_error"),
    (16, "bird", "shop/shop.sqlite", "SELECT max(id) FROM items WHERE id > 9", "all_null"),
    (17, "bird", "../outside.sqlite", GOOD, "unknown_database"),
    (18, "bird", None, GOOD, "unknown_database"),
    (19, "sql", "shop/shop.sqlite", "", "gold_error"),
]


def write_sql(path: Path, questions: list[tuple]) -> None:
    """Rows of the project's format, as demo, BIRD and Spider have them."""
    rows = [
        {
            "id": number,
            "data_source": source,
            "prompt": [{"role": "user", "content": f"Question {number}?"}],
            "reward_model": {
                "style": "rule",
                "ground_truth": {"db_id": db_id, "gold_sql": gold_sql, "cmp_method": "bird"},
            },
        }
        for number, source, db_id, gold_sql, _ in questions
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def write_math(path: Path) -> None:
    """Rows whose ground truth is a text: no SQL questions."""
    rows = [
        {"id": i, "data_source": "math_dapo", "reward_model": {"style": "rule", "ground_truth": "34"}} for i in range(3)
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """databases/shop/shop.sqlite, sql.parquet, math.parquet."""
    (tmp_path / "databases" / "shop").mkdir(parents=True)
    connection = sqlite3.connect(tmp_path / "databases" / "shop" / "shop.sqlite")
    connection.executescript("CREATE TABLE items (id, name); INSERT INTO items VALUES (1, 'a'), (2, 'b');")
    connection.close()
    write_sql(tmp_path / "sql.parquet", QUESTIONS)
    write_math(tmp_path / "math.parquet")
    return tmp_path


def start(folder: Path, *arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "rl.scorer.audit", "--database-path", "databases", *arguments]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )


def test_lists_every_question_whose_gold_is_not_as_it_should_be(folder: Path, runaway: str) -> None:
    write_sql(folder / "slow.parquet", [(7, "bird", "shop/shop.sqlite", runaway, "gold_timeout")])
    settings = {"class_name": "SqlRewardModel", "database_path": "nowhere", "grace_seconds": 1}
    (folder / "settings.yaml").write_text(yaml.safe_dump({"Scorers": {"Scorer1": settings}}))
    files = ("sql.parquet", "math.parquet", "slow.parquet")
    process = start(
        folder, *files, "--config", "settings.yaml", "--gold-seconds", "0.7", "--num-instances", "2", "--out", "a.csv"
    )
    said, progress = process.communicate()
    assert process.returncode == 0, progress
    with (folder / "a.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = [(number, "sql.parquet", db_id, sql, outcome) for number, _, db_id, sql, outcome in QUESTIONS]
    expected.append((7, "slow.parquet", "shop/shop.sqlite", runaway, "gold_timeout"))
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
    assert float(by_id["7"]["seconds"]) >= 0.5
    assert said.splitlines()[0] == "14 rows, 11 SQL questions, 10 different gold queries."
    assert "3 rows are no SQL questions and were not checked: math_dapo 3." in said
    counts = {line.split()[0]: line.split()[1:] for line in said.splitlines() if len(line.split()) == 3}
    assert counts["gold"] == counts["all_null"] == ["1", "1"]
    assert counts["gold_error"] == ["4", "3"]
    assert counts["unknown_database"] == ["3", "3"]
    assert (
        "\n  11  shop/shop.sqlite  gold_error: no such column: missing\n  12  shop/shop.sqlite  empty: the query"
        in said
    )
    assert "below databases; if they lie elsewhere, pass --database-path DIR.\nWrote 10 rows to a.csv.\n" in said
    assert "10/10" in progress
    assert sorted(path.name for path in folder.iterdir()) == sorted([*files, "a.csv", "databases", "settings.yaml"])


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_the_table_has_the_format_of_its_suffix(folder: Path, name: str) -> None:
    databases, out = folder / "databases", folder / name
    assert main([str(folder / "sql.parquet"), "--database-path", str(databases), "--out", str(out)]) == 0
    if name == "a.jsonl":
        rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    else:
        rows = pyarrow.parquet.read_table(out).to_pylist()
    assert list(rows[0]) == ["id", "file", "db_id", "gold_sql", "outcome", "seconds", "error"]
    assert [(row["id"], row["db_id"], row["gold_sql"], row["outcome"]) for row in rows] == [
        (number, db_id, sql, outcome) for number, _, db_id, sql, outcome in QUESTIONS if outcome != "gold"
    ]


def test_a_dataset_without_findings_gives_an_empty_table(folder: Path) -> None:
    write_sql(folder / "good.parquet", [question for question in QUESTIONS if question[-1] == "gold"])
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        arguments = [str(folder / "good.parquet"), "--database-path", str(folder / "databases")]
        assert main([*arguments, "--out", str(folder / name)]) == 0
    assert (folder / "a.csv").read_text().strip() == "id,file,db_id,gold_sql,outcome,seconds,error"
    assert (folder / "a.jsonl").read_text() == ""
    assert pyarrow.parquet.read_table(folder / "a.parquet").num_rows == 0


def test_the_failures_are_listed_and_dropped_and_the_table_lies_beside_the_data(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(elsewhere := tmp_path_factory.mktemp("elsewhere"))
    bad = [(100 + i, "bird", "shop/shop.sqlite", f"SELECT missing{i} FROM items", "gold_error") for i in range(25)]
    write_sql(folder / "sql.parquet", questions := [*QUESTIONS, *bad])
    source, good = folder / "sql.parquet", folder / "good.parquet"
    content = pyarrow.parquet.read_table(source).replace_schema_metadata({"origin": "test"})
    pyarrow.parquet.write_table(content, source)
    assert main([str(source), "--database-path", str(folder / "databases"), "--drop", str(good)]) == 0
    said = capsys.readouterr().out.splitlines()
    first = said.index("Failures (id, database, what is wrong):")
    assert said[first + 1] == "  11  shop/shop.sqlite  gold_error: no such column: missing"
    assert said[first + 4].startswith("  14  shop/shop.sqlite  gold_error: ") and "None" in said[first + 8]
    assert said[first + 21] == "  ... and 14 more, which the table has."
    assert said[-2] == f"Wrote 34 rows to {folder / 'sql.gold_audit.csv'}."
    reasons = "dropped 34: gold_error 29, unknown_database 3, empty 1, all_null 1."
    assert said[-1] == f"Wrote 1 of 35 rows to {good}; {reasons}"
    kept = [i for i, question in enumerate(questions) if question[-1] == "gold"]
    assert pyarrow.parquet.read_table(good).equals(content.take(kept), check_metadata=True)
    assert len((folder / "sql.gold_audit.csv").read_text().splitlines()) == 35 and not [*elsewhere.iterdir()]
    write_sql(source, bad)
    with pytest.raises(SystemExit):
        main([str(source), "--database-path", str(folder / "databases"), "--drop", str(good)])
    assert "would have no rows: all 25 of" in capsys.readouterr().err
    assert pyarrow.parquet.read_metadata(good).num_rows == 1


def test_what_cannot_be_checked_is_said_and_no_finding(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = sqlite3.connect(folder / "databases" / "shop" / "shop.sqlite", isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    write_sql(folder / "one.parquet", QUESTIONS[:1])
    # In a process of its own: one that holds a lock loses it when it closes the file.
    process = start(folder, "one.parquet", "--out", "a.csv", "--drop", "good.parquet")
    _, said = process.communicate()
    connection.close()
    assert process.returncode == 1
    unwritten = "infra_error in the table), and good.parquet is not written; run the audit again.\n"
    assert (
        said.endswith(f"Error: 1 queries could not be checked ({unwritten}") and not (folder / "good.parquet").exists()
    )
    assert "database is locked" in (folder / "a.csv").read_text()
    monkeypatch.chdir(folder)
    assert main(["one.parquet", "--database-path", "databases", "--out", "a.csv"]) == 0
    assert "locked" not in (folder / "a.csv").read_text()


def test_an_interrupted_audit_leaves_the_table_as_it_was(folder: Path, runaway: str) -> None:
    (folder / "a.csv").write_text("the one before")
    write_sql(folder / "slow.parquet", [(7, "bird", "shop/shop.sqlite", runaway, "gold_timeout"), *QUESTIONS])
    process = start(folder, "slow.parquet", "--out", "a.csv")
    seen = ""
    while "9/10" not in seen:
        seen += process.stderr.read(1)
        assert process.poll() is None, seen
    children = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    workers = [int(pid) for pid, parent in map(str.split, children.splitlines()) if int(parent) == process.pid]
    assert workers
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said.endswith("Interrupted.\n")
    assert (folder / "a.csv").read_text() == "the one before"
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.02)


# Two rows with the name b and the size 2; rank 1 is of two rows with one name.
DOUBTFUL = """
    CREATE TABLE things (id INTEGER PRIMARY KEY, name, size, rank);
    INSERT INTO things VALUES (1, 'a', 1, 1), (2, 'b', 2, 2), (3, 'b', 2, 3), (4, 'c', 2, 4), (5, 'a', 3, 1);
"""
DOUBTS = [
    ("SELECT name FROM things ORDER BY size LIMIT 2", "bird", ["tie"]),
    ("SELECT name FROM things ORDER BY size LIMIT 1", "bird", []),
    ("SELECT name FROM things ORDER BY rank LIMIT 1", "bird", []),  # the rows that tie are equal
    ("SELECT id FROM things WHERE size = (SELECT size FROM things ORDER BY name LIMIT 1)", "bird", ["tie"]),
    ("SELECT name FROM things WHERE id > 1 LIMIT 1 -- any", "bird", ["row_order", "tie"]),
    ("SELECT group_concat(name) FROM things", "bird", ["row_order"]),
    ("SELECT name, id FROM things ORDER BY size;", "spider", ["order"]),
    ("SELECT name, id FROM things ORDER BY size", "bird", []),
    ("SELECT name, id FROM things ORDER BY size, id", "spider", []),
    ("SELECT name FROM things", "spider", ["distinct"]),
    ("SELECT DISTINCT name FROM things", "spider", ["distinct"]),
    ("SELECT DISTINCT name FROM things", "bird", []),
    ("SELECT id FROM things", "spider", []),
    ("SELECT count(*) FROM (SELECT DISTINCT name FROM things)", "spider", []),
    ("WITH t AS (SELECT name FROM things ORDER BY id LIMIT 2) SELECT max(name) FROM t", "spider", []),
]


def test_doubtful_golds_are_listed_with_what_leaves_them_open(folder: Path, capsys: pytest.CaptureFixture) -> None:
    connection = sqlite3.connect(folder / "databases" / "things.sqlite")
    connection.executescript(DOUBTFUL)
    connection.close()

    def row(number: int, gold: str, method: str, prompt: str) -> dict:
        truth = {"db_id": "things.sqlite", "gold_sql": gold, "cmp_method": method}
        return {"id": number, "data_source": method, "prompt": prompt, "reward_model": {"ground_truth": truth}}

    rows = [row(i, gold, method, f"question {i}") for i, (gold, method, _) in enumerate(DOUBTS)]
    same = ("SELECT max(id) FROM things", "SELECT 5", "SELECT min(id) FROM things")
    rows += [row(100 + i, gold, "bird", "the same question") for i, gold in enumerate(same)]
    # equal golds, and another prompt
    rows += [row(200, "SELECT 1", "bird", "q"), row(201, "SELECT 1.0", "bird", "q"), row(202, "SELECT 2", "bird", "r")]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "doubts.parquet")
    data, kept, table = (str(folder / name) for name in ("doubts.parquet", "kept.parquet", "a.jsonl"))
    where = [data, "--database-path", str(folder / "databases"), "--out", table]
    assert main([*where, "--drop", kept, "--drop-for", "tie", "two_golds"]) == 0
    entries = [json.loads(line) for line in Path(table).read_text().splitlines()]
    found: dict[int, list[str]] = {}
    for entry in entries:
        found.setdefault(entry["id"], []).append(entry["outcome"])
    for number, (gold, method, doubts) in enumerate(DOUBTS):
        assert found.pop(number, []) == doubts, (gold, method)
    assert found == {100: ["two_golds"], 102: ["two_golds"]}
    [first, second] = [entry["error"] for entry in entries if entry["outcome"] == "two_golds"]
    assert "the gold of id 102, with the same prompt," in first and "the gold of id 100, with the same" in second
    said = capsys.readouterr().out
    assert "of gold, doubtful:\ntie                        3         3\n" in said
    assert "  0  things.sqlite  tie: LIMIT cuts between rows with equal sort keys\n" in said
    assert "dropped 5: tie 3, two_golds 2." in said
    ids = [number for number in range(len(DOUBTS)) if "tie" not in DOUBTS[number][2]]
    assert pyarrow.parquet.read_table(kept)["id"].to_pylist() == [*ids, 101, 200, 201, 202]
    assert main([*where, "--no-doubts"]) == 0 and Path(table).read_text() == ""


@pytest.mark.parametrize(
    ("sql", "variant"),
    [
        ("SELECT a, b FROM t", None),
        ("SELECT a, b FROM t ORDER BY a;", "SELECT a, b FROM t ORDER BY a, 1, 2 ;"),
        ("SELECT a, b FROM t ORDER BY a LIMIT 3", "SELECT a, b FROM t ORDER BY a , 1, 2 LIMIT 3"),
        ("SELECT a, b FROM t LIMIT 3 -- LIMIT 4", "SELECT a, b FROM t  ORDER BY 1, 2 LIMIT 3 -- LIMIT 4"),
        (
            "SELECT a, b FROM t WHERE c IN (SELECT d FROM u ORDER BY e LIMIT 1)",
            "SELECT a, b FROM t WHERE c IN (SELECT d FROM u ORDER BY e , 1 LIMIT 1)",
        ),
        ("SELECT rank() OVER (ORDER BY a), 'ORDER BY b LIMIT 1' FROM t", None),
        ("SELECT a, b FROM t ORDER BY (SELECT 1) -- x", "SELECT a, b FROM t ORDER BY (SELECT 1), 1, 2  -- x"),
    ],
)
def test_tie_breaks(sql: str, variant: str | None) -> None:
    assert with_tie_breaks(sql, 2, descending=False) == variant


def test_a_stopped_audit_resumes_and_forgets_what_changed(folder: Path, runaway: str, capsys) -> None:
    write_sql(folder / "slow.parquet", [*QUESTIONS, (7, "bird", "shop/shop.sqlite", runaway, "gold_timeout")])
    process = start(folder, "slow.parquet", "--out", "a.csv")
    seen = ""
    while "9/10" not in seen:
        seen += process.stderr.read(1)
        assert process.poll() is None, seen
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    journal = folder / "a.csv.progress"
    # What names no database is not kept: it is found again at once.
    assert {json.loads(line)["outcome"] for line in journal.read_text().splitlines()} == {
        *("gold", "gold_error", "empty", "all_null")
    }
    lines = journal.read_text().replace("no such column: missing", "as the stopped audit found")
    journal.write_text(lines + '{"key": "torn')
    write_sql(folder / "slow.parquet", QUESTIONS)
    arguments = [str(folder / "slow.parquet"), "--database-path", str(folder / "databases")]
    assert main([*arguments, "--out", str(folder / "a.csv")]) == 0
    assert (folder / "a.csv").read_text().count("as the stopped audit found") == 2 and not journal.exists()
    journal.write_text(lines)
    connection = sqlite3.connect(folder / "databases" / "shop" / "shop.sqlite")
    connection.executescript("ALTER TABLE items ADD COLUMN missing")
    connection.close()
    assert main([*arguments, "--out", str(folder / "a.csv")]) == 0
    assert "as the stopped audit found" not in (folder / "a.csv").read_text()


WRONG = [
    (["none.parquet"], "none.parquet cannot be read as parquet"),
    (["text.parquet"], "text.parquet cannot be read as parquet"),
    (["databases"], "databases cannot be read as parquet"),
    (["columns.parquet"], "columns.parquet has no column id, reward_model"),
    (["math.parquet"], "none of 3 rows is an SQL question (math_dapo)"),
    (["sql.parquet", "--out", "a.txt"], "--out a.txt is none of .csv, .jsonl, .parquet"),
    (["sql.parquet", "--out", "none/a.csv"], "none/a.csv lies in no directory"),
    (["sql.parquet", "--out", "sql.parquet"], "--out sql.parquet would replace another file"),
    (["sql.parquet", "--drop", "a.csv"], "--drop a.csv is none of .parquet"),
    (["sql.parquet", "--drop", "databases/../sql.parquet"], "would replace another file of the audit; give another"),
    (["sql.parquet", "--drop", "a.parquet", "--out", "a.parquet"], "--drop a.parquet would replace another file"),
    (["sql.parquet", "math.parquet", "--drop", "a.parquet"], "--drop takes the rows of one DATA.parquet, not of 2"),
    (["sql.parquet", "--database-path", "none"], "is 'none', which is no directory; create it or pass --database-path"),
    (["sql.parquet", "--database-path", "."], "such as shop/shop.sqlite, is below .; pass --database-path DIR"),
    (["sql.parquet", "--num-instances", "0"], "num_instances = 0"),
    (["sql.parquet", "--gold-seconds", "inf"], "gold_seconds = inf"),
    (["sql.parquet", "--config", "none.yaml"], "none.yaml cannot be read"),
    (["sql.parquet", "--config", "math.yaml"], "math.yaml has no scorer for SQL"),
]


@pytest.mark.parametrize(("arguments", "sentence"), WRONG, ids=[case[1] for case in WRONG])
def test_what_is_wrong_is_one_sentence(
    folder: Path,
    arguments: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    monkeypatch.chdir(folder)
    (folder / "text.parquet").write_text("no parquet")
    (folder / "math.yaml").write_text("Scorers: {Scorer1: {class_name: MathRewardModel}}")
    pyarrow.parquet.write_table(pyarrow.table({"data_source": ["sql"]}), folder / "columns.parquet")
    files = sorted(path.name for path in folder.iterdir())
    with pytest.raises(SystemExit) as ended:
        main(["--database-path", "databases", *arguments])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and said.startswith("Error: ") and sentence in said and said.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == files


def test_a_missing_pyarrow_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    out = os.fspath(folder / "a.csv")
    with pytest.raises(SystemExit):
        main([str(folder / "sql.parquet"), "--database-path", str(folder / "databases"), "--out", out])
    assert (
        capsys.readouterr().err == "Error: The audit reads parquet with pyarrow; install it: pip install '.[audit]'.\n"
    )
