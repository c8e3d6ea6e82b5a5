"""python -m rl.scorer.audit, as a user runs it: on parquet files and databases with good and bad gold queries."""

import csv
import json
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

from rl.scorer.audit.check import Query
from rl.scorer.audit.options import main
from rl.scorer.audit.problems import Problem
from rl.scorer.audit.report import Entry, write_without
from rl.scorer.audit.variants import with_tie_breaks
from tests.scorer.conftest import RUNAWAY, SHOP, make_database, wait_until_gone

HERE = Path(__file__).parent
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
RUNS_AWAY = (7, "bird", SHOP, RUNAWAY, "gold_timeout")


def row(number: int, source: str, truth: object, prompt: str) -> dict:
    """Write rows in the project's format."""
    reward_model = {"style": "rule", "ground_truth": truth}
    return {"id": number, "data_source": source, "prompt": prompt, "reward_model": reward_model}


def write_rows(path: Path, rows: list[dict]) -> None:
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def write_sql(path: Path, questions: list[tuple]) -> None:
    truths = [{"db_id": db_id, "gold_sql": gold, "cmp_method": "bird"} for _, _, db_id, gold, _ in questions]
    rows = zip(questions, truths, strict=True)
    write_rows(path, [row(number, source, truth, f"Question {number}?") for (number, source, *_), truth in rows])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """databases/shop/shop.sqlite, sql.parquet, math.parquet."""
    make_database(
        tmp_path / "databases" / SHOP, "CREATE TABLE items (id, name); INSERT INTO items VALUES (1, 'a'), (2, 'b');"
    )
    write_sql(tmp_path / "sql.parquet", QUESTIONS)
    write_rows(tmp_path / "math.parquet", [row(i, "math_dapo", "34", "?") for i in range(3)])
    return tmp_path


def audit(folder: Path, *arguments: str) -> int:
    """Run the audit of sql.parquet or another file in this process."""
    files = () if arguments[0].endswith(".parquet") else (str(folder / "sql.parquet"),)
    return main([*files, "--database-path", str(folder / "databases"), *arguments])


def start(folder: Path, *arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "rl.scorer.audit", "--database-path", "databases", *arguments]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )


def test_lists_every_question_whose_gold_is_not_as_it_should_be(folder: Path) -> None:
    write_sql(folder / "slow.parquet", [RUNS_AWAY])
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
    assert float(by_id["7"]["seconds"]) >= 0.5
    assert said.splitlines()[0] == "14 rows, 11 SQL questions, 10 different gold queries."
    assert "3 rows are not SQL questions and were not checked: math_dapo 3." in said
    counts = {line.split()[0]: line.split()[1:] for line in said.splitlines() if len(line.split()) == 3}
    assert counts["gold"] == counts["all_null"] == ["1", "1"]
    assert counts["gold_error"] == ["4", "3"]
    assert counts["unknown_database"] == ["3", "3"]
    assert (
        "\n  11  shop/shop.sqlite  gold_error: no such column: missing\n  12  shop/shop.sqlite  empty: the query"
        in said
    )
    assert "below databases; if they are elsewhere, pass --database-path DIR.\nWrote 10 rows to a.csv.\n" in said
    assert "10/10" in progress
    assert sorted(path.name for path in folder.iterdir()) == sorted([*files, "a.csv", "databases", "settings.yaml"])


def test_a_dataset_without_findings_gives_an_empty_table(folder: Path) -> None:
    write_sql(folder / "sql.parquet", QUESTIONS[:1])
    assert audit(folder, "--out", str(folder / "a.csv")) == 0
    assert (folder / "a.csv").read_text().strip() == "id,file,db_id,gold_sql,outcome,seconds,error"


def test_the_failures_are_listed_and_dropped_and_the_table_lies_beside_the_data(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(elsewhere := tmp_path_factory.mktemp("elsewhere"))
    bad = [(100 + i, "bird", SHOP, f"SELECT missing{i} FROM items", "gold_error") for i in range(25)]
    write_sql(source := folder / "sql.parquet", [*QUESTIONS, *bad])
    good = folder / "good.parquet"
    content = parquet.read_table(source).replace_schema_metadata({"origin": "test"})
    parquet.write_table(content, source)
    assert audit(folder, "--drop", str(good)) == 0
    said = capsys.readouterr().out.splitlines()
    first = said.index("Failures (id, database, what is wrong):")
    assert said[first + 1] == "  11  shop/shop.sqlite  gold_error: no such column: missing"
    assert said[first + 4].startswith("  14  shop/shop.sqlite  gold_error: ") and "None" in said[first + 8]
    assert said[first + 21] == "  ... and 14 more, which are in the table."
    assert said[-2] == f"Wrote 34 rows to {folder / 'sql.gold_audit.csv'}."
    reasons = "dropped 34: gold_error 29, unknown_database 3, empty 1, all_null 1."
    assert said[-1] == f"Wrote 1 of 35 rows to {good}; {reasons}"
    assert parquet.read_table(good).equals(content.take([0]), check_metadata=True)
    assert len((folder / "sql.gold_audit.csv").read_text().splitlines()) == 35 and not [*elsewhere.iterdir()]
    write_sql(source, bad)
    with pytest.raises(SystemExit):
        audit(folder, "--drop", str(good))
    assert "would have no rows: all 25 of" in capsys.readouterr().err
    assert parquet.read_metadata(good).num_rows == 1


def test_what_cannot_be_checked_is_said_and_is_not_a_finding(folder: Path) -> None:
    connection = sqlite3.connect(folder / "databases" / SHOP, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    write_sql(folder / "sql.parquet", QUESTIONS[:1])
    # In its own process: a process loses its lock when it closes the file.
    process = start(folder, "sql.parquet", "--out", "a.csv", "--drop", "good.parquet")
    _, said = process.communicate()
    connection.close()
    unwritten = "infra_error in the table), and good.parquet is not written; run the audit again.\n"
    assert process.returncode == 1 and said.endswith(f"Error: 1 queries could not be checked ({unwritten}")
    assert not (folder / "good.parquet").exists() and "database is locked" in (folder / "a.csv").read_text()
    assert audit(folder, "--out", str(folder / "a.csv")) == 0
    assert "locked" not in (folder / "a.csv").read_text()


def test_an_interrupted_audit_leaves_the_table_resumes_and_forgets_what_changed(folder: Path) -> None:
    (table := folder / "a.csv").write_text("the one before")
    write_sql(folder / "slow.parquet", [RUNS_AWAY, *QUESTIONS])
    process = start(folder, "slow.parquet", "--out", "a.csv")
    seen = ""
    while "9/10" not in seen:
        seen += process.stderr.read(1)
        assert process.poll() is None, seen
    workers = [worker.pid for worker in psutil.Process(process.pid).children(recursive=True)]
    assert workers
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130 and said.endswith("Interrupted.\n")
    assert table.read_text() == "the one before"
    wait_until_gone(workers)
    journal = folder / "a.csv.progress"
    # A question without a database is not kept, because it is quickly found again.
    assert {json.loads(line)["outcome"] for line in journal.read_text().splitlines()} == {
        *("gold", "gold_error", "empty", "all_null")
    }
    lines = journal.read_text().replace("no such column: missing", "as the stopped audit found")
    journal.write_text(lines + '{"key": "torn')
    assert audit(folder, "--out", str(table)) == 0
    assert table.read_text().count("as the stopped audit found") == 2 and not journal.exists()
    # What other limits found is not used.
    journal.write_text(lines)
    (limited := folder / "limited.yaml").write_text(
        "Scorers: {A: {class_name: SqlRewardModel, database_path: databases, max_result_rows: 7}}"
    )
    assert audit(folder, "--out", str(table), "--config", str(limited)) == 0
    assert "as the stopped audit found" not in table.read_text()
    journal.write_text(lines)
    make_database(folder / "databases" / SHOP, "ALTER TABLE items ADD COLUMN missing")
    assert audit(folder, "--out", str(table)) == 0
    assert "as the stopped audit found" not in table.read_text()


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
    ("SELECT name, julianday('now') - id FROM things", "bird", ["clock"]),
    ("SELECT CURRENT_TIMESTAMP", "bird", ["clock"]),
    ("SELECT strftime('%Y', 'now') - id FROM things", "bird", []),
]


def test_a_whole_batch_of_rows_can_be_dropped(tmp_path: Path) -> None:
    """Arrow reads 65,536 rows at once."""
    data, kept = tmp_path / "all.parquet", tmp_path / "kept.parquet"
    parquet.write_table(pyarrow.table({"id": range(65_537)}), data)
    query = Query("db", "SELECT 1", "bird")
    found = [Entry(Problem(i, data.name, i, query, None), "empty", 0.0, None) for i in range(65_536)]
    assert write_without(found, ["empty"], data, kept).startswith("Wrote 1 of 65537 rows")
    assert parquet.read_table(kept)["id"].to_pylist() == [65_536]


def test_doubtful_golds_are_listed_with_what_leaves_them_open(folder: Path, capsys: pytest.CaptureFixture) -> None:
    make_database(folder / "databases" / "things.sqlite", DOUBTFUL)
    asked = [(i, gold, method, f"question {i}") for i, (gold, method, _) in enumerate(DOUBTS)]
    same = ("SELECT max(id) FROM things", "SELECT 5", "SELECT min(id) FROM things")
    asked += [(100 + i, gold, "bird", "the same question") for i, gold in enumerate(same)]
    # equal golds, and another prompt
    asked += [(200, "SELECT 1", "bird", "q"), (201, "SELECT 1.0", "bird", "q"), (202, "SELECT 2", "bird", "r")]
    truths = [{"db_id": "things.sqlite", "gold_sql": gold, "cmp_method": method} for _, gold, method, _ in asked]
    rows = zip(asked, truths, strict=True)
    write_rows(folder / "doubts.parquet", [row(i, method, truth, prompt) for (i, _, method, prompt), truth in rows])
    data, kept, table = (str(folder / name) for name in ("doubts.parquet", "kept.parquet", "a.csv"))
    assert audit(folder, data, "--out", table, "--drop", kept, "--drop-for", "tie", "two_golds") == 0
    with Path(table).open(encoding="utf-8", newline="") as file:
        entries = list(csv.DictReader(file))
    found: dict[int, list[str]] = {}
    for entry in entries:
        found.setdefault(int(entry["id"]), []).append(entry["outcome"])
    for number, (gold, method, doubts) in enumerate(DOUBTS):
        assert found.pop(number, []) == doubts, (gold, method)
    assert found == dict.fromkeys((100, 101, 102), ["two_golds"])
    # Those that agree with each other differ from the third.
    others = {entry["id"]: entry["error"].split(",")[0] for entry in entries if entry["outcome"] == "two_golds"}
    assert others == {"100": "the gold of id 102", "101": "the gold of id 102", "102": "the gold of id 100"}
    said = capsys.readouterr().out
    assert "of gold, doubtful:\ntie                        3         3\n" in said
    assert "  0  things.sqlite  tie: LIMIT cuts between rows with equal sort keys\n" in said
    assert "dropped 6: tie 3, two_golds 3." in said
    ids = [number for number in range(len(DOUBTS)) if "tie" not in DOUBTS[number][2]]
    assert parquet.read_table(kept)["id"].to_pylist() == [*ids, 200, 201, 202]
    capsys.readouterr()
    for words, sentence in (
        (["--drop-for", "tie"], "--drop-for says which rows --drop leaves out: give --drop too."),
        (
            ["--drop", kept, "--drop-for", "tie", "empty", "--no-doubts"],
            "--drop-for tie has no effect with --no-doubts",
        ),
    ):
        with pytest.raises(SystemExit) as stop:
            audit(folder, data, "--out", table, *words)
        assert stop.value.code == 2 and sentence in capsys.readouterr().err
    assert audit(folder, data, "--out", table, "--no-doubts") == 0
    assert len(Path(table).read_text().splitlines()) == 1


def test_alarms_on_a_music_shop_are_counted_against_labels_by_hand(folder: Path) -> None:
    """docs/howto/data.md shows these counts: alarms that are right, false alarms, and doubts that are missed."""
    make_database(folder / "databases" / "music.sqlite", (HERE / "music.sql").read_text())
    with (HERE / "music.tsv").open(encoding="utf-8", newline="") as file:
        asked = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = []
    for number, question in enumerate(asked):
        truth = {"db_id": "music.sqlite", "gold_sql": question["gold"], "cmp_method": question["method"]}
        rows.append(row(number, "sql", truth, f"color UNIQUE\nQuestion:\n{question['question']}"))
    write_rows(folder / "music.parquet", rows)
    assert audit(folder, str(folder / "music.parquet"), "--out", str(folder / "a.csv")) == 0
    with (folder / "a.csv").open(encoding="utf-8", newline="") as file:
        found = {(int(entry["id"]), entry["outcome"]) for entry in csv.DictReader(file)}
    labelled = {(number, doubt) for number, question in enumerate(asked) for doubt in question["open"].split()}
    counts = {}
    for doubt in ("tie", "row_order", "order", "distinct", "two_golds"):
        alarms, open_ = ({number for number, outcome in pairs if outcome == doubt} for pairs in (found, labelled))
        counts[doubt] = len(alarms & open_), len(alarms - open_), len(open_ - alarms)
    assert counts == {
        "tie": (9, 0, 0),
        "row_order": (2, 0, 3),
        "order": (5, 0, 0),
        "distinct": (3, 7, 0),
        "two_golds": (2, 0, 0),
    }


TIE_BREAKS = [
    ("SELECT a, b FROM t", None),
    ("SELECT a, b FROM t ORDER BY a;", "SELECT a, b FROM t ORDER BY a, 1, 2 ;"),
    ("SELECT a, b FROM t ORDER BY a LIMIT 3", "SELECT a, b FROM t ORDER BY a , 1, 2 LIMIT 3"),
    ("SELECT a, b FROM t LIMIT 3 -- LIMIT 4", "SELECT a, b FROM t  ORDER BY 1, 2 LIMIT 3 -- LIMIT 4"),
    (
        "SELECT a FROM t WHERE c = (SELECT d FROM u LIMIT 1)",
        "SELECT a FROM t WHERE c = (SELECT d FROM u  ORDER BY 1 LIMIT 1)",
    ),
    ("SELECT rank() OVER (ORDER BY a), 'ORDER BY b LIMIT 1' FROM t", None),
    ("SELECT a, b FROM t ORDER BY (SELECT 1) -- x", "SELECT a, b FROM t ORDER BY (SELECT 1), 1, 2  -- x"),
]


def test_tie_breaks() -> None:
    for sql, variant in TIE_BREAKS:
        assert with_tie_breaks(sql, 2, descending=False) == variant


WRONG = [
    (["none.parquet"], "none.parquet does not exist: make it"),
    (["text.parquet"], "text.parquet cannot be read as parquet"),
    (["databases"], "databases cannot be read as parquet"),
    (["columns.parquet"], "columns.parquet has no column id, reward_model"),
    (["math.parquet"], "none of 3 rows is an SQL question (math_dapo)"),
    (["sql.parquet", "--out", "a.txt"], "--out a.txt does not end with .csv"),
    (["sql.parquet", "--out", "none/a.csv"], "The folder of --out none/a.csv cannot be written to"),
    (["sql.parquet", "--drop", "a.csv"], "--drop a.csv does not end with .parquet"),
    (["sql.parquet", "--drop", "databases/../sql.parquet"], "would replace a file of the audit; give another"),
    (["sql.parquet", "math.parquet", "--drop", "a.parquet"], "--drop takes the rows of one DATA.parquet, not of 2"),
    (
        ["sql.parquet", "--database-path", "none"],
        "is 'none', which is not a directory; create it or pass --database-path",
    ),
    (["sql.parquet", "--database-path", "."], "such as shop/shop.sqlite, is below .; pass --database-path DIR"),
    (["sql.parquet", "--num-instances", "0"], "--num-instances is 0: Input should be greater than 0"),
    (["sql.parquet", "--gold-seconds", "inf"], "--gold-seconds is inf: "),
    (["sql.parquet", "--config", "none.yaml"], "none.yaml cannot be read"),
    (["method.parquet"], "method.parquet: row 7 has the cmp_method ['bird']: use bird or spider or spider2."),
    (["sql.parquet", "--config", "math.yaml"], "math.yaml has no scorer for SQL"),
]


def test_what_is_wrong_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(folder)
    (folder / "text.parquet").write_text("no parquet")
    (folder / "math.yaml").write_text("Scorers: {Scorer1: {class_name: MathRewardModel}}")
    parquet.write_table(pyarrow.table({"data_source": ["sql"]}), folder / "columns.parquet")
    truth = {"db_id": "a", "gold_sql": "SELECT 1", "cmp_method": ["bird"]}
    write_rows(folder / "method.parquet", [row(7, "sql", truth, "How many?")])
    files = sorted(path.name for path in folder.iterdir())

    def error(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["--database-path", "databases", *arguments])
        said = capsys.readouterr().err
        assert ended.value.code == 2 and said.startswith("Error: ") and said.count("\n") == 1, said
        assert sorted(path.name for path in folder.iterdir()) == files
        return said

    for arguments, sentence in WRONG:
        assert sentence in error(*arguments)
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    assert error("sql.parquet") == "Error: The audit reads parquet with pyarrow; install it: pip install '.[audit]'.\n"
