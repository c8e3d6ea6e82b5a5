"""The files of the task: format, disjointness, determinism and what a rerun does."""

import json
import sqlite3
import sys
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from rl.common.errors import UserError
from rl.demo.chat_prompt import QUESTION_HEADING
from rl.demo.schemas import CHILD_ROWS, PARENT_ROWS, SCHEMAS
from rl.demo.sql_solutions import STYLE_NAMES
from rl.demo.task import MOST_ROWS, TaskSettings, draw_questions, main, make_task, splits

SIZES = {"train": 40, "test_in_domain": 20, "test_out_of_domain": 20, "sft": 150}
FILES = [f"{name}.parquet" for name in SIZES]
TINY = TaskSettings(seed=3, train=4, eval=3, sft=5)


def read(folder, name: str) -> list[dict]:
    return pq.read_table(folder / f"{name}.parquet").to_pylist()


def question_of(row: dict) -> str:
    lines = row["prompt"][0]["content"].splitlines()
    return lines[lines.index(QUESTION_HEADING) + 1]


def test_rows_have_the_papers_format(small_task):
    for name, size in SIZES.items():
        rows = read(small_task, name)
        assert len(rows) == size
        for index, row in enumerate(rows):
            truth = row["reward_model"]["ground_truth"]
            assert row["data_source"] == "sql"
            assert [message["role"] for message in row["prompt"]] == ["user"]
            assert row["reward_model"]["style"] == "rule"
            assert set(truth) == {"db_id", "gold_sql", "cmp_method"}
            assert truth["cmp_method"] == "bird"
            assert row["extra_info"]["index"] == index
            assert row["extra_info"]["split"] == name
            assert truth["db_id"] == "{0}/{0}.sqlite".format(row["extra_info"]["schema"])
            assert question_of(row).startswith(row["extra_info"]["schema"] + " : ")
            assert ("solutions" in row) == (name == "sft")


def test_a_prompt_is_a_whole_task(small_task):
    row = next(row for row in read(small_task, "train") if row["extra_info"]["schema"] == "shop")
    prompt = row["prompt"][0]["content"]
    assert "CREATE TABLE customers (" in prompt
    assert "    customer_id INTEGER REFERENCES customers (id),  -- such as " in prompt
    assert "    name TEXT,  -- such as 'shop_00', 'shop_01'" in prompt
    assert prompt.count(QUESTION_HEADING) == 1
    assert "```sql\n" in prompt
    assert 200 <= len(prompt.split()) <= 300


def test_no_question_and_no_id_occurs_twice(small_task):
    rows = [row for name in SIZES for row in read(small_task, name)]
    assert len({question_of(row) for row in rows}) == sum(SIZES.values())
    assert len({row["id"] for row in rows}) == sum(SIZES.values())


def test_schemas_of_the_splits(small_task):
    schemas = {name: {row["extra_info"]["schema"] for row in read(small_task, name)} for name in SIZES}
    assert schemas["train"] == schemas["test_in_domain"] == {"shop", "school"}
    assert schemas["test_out_of_domain"] == {"flights", "clinic"}
    assert schemas["sft"] == {"shop", "school", "flights", "clinic"}


def test_gold_runs_and_tells_something(small_task, databases):
    for name in SIZES:
        for row in read(small_task, name):
            connection = databases[row["extra_info"]["schema"]]
            gold = set(connection.execute(row["reward_model"]["ground_truth"]["gold_sql"]))
            assert 0 < len(gold) <= MOST_ROWS < PARENT_ROWS
            for style, solution in zip(STYLE_NAMES, row.get("solutions", STYLE_NAMES), strict=True):
                if name == "sft":
                    assert solution.startswith(f"/*{style}*/ ")
                    assert set(connection.execute(solution)) == gold


def test_databases_are_whole_sqlite_files(small_task):
    for schema in SCHEMAS:
        folder = small_task / "databases" / schema.name
        assert [path.name for path in folder.iterdir()] == [f"{schema.name}.sqlite"]
        connection = sqlite3.connect(folder / f"{schema.name}.sqlite")
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        for table, rows in ((schema.parent, PARENT_ROWS), (schema.child, CHILD_ROWS)):
            assert connection.execute(f"SELECT COUNT(*) FROM {table.name}").fetchone() == (rows,)
        connection.close()


def test_a_seed_decides_every_byte(tmp_path):
    for folder, settings in (("one", TINY), ("two", TINY), ("three", replace(TINY, seed=4))):
        make_task(tmp_path / folder, settings)
    databases = [f"databases/{schema.db_id}" for schema in SCHEMAS]
    for name in [*FILES, *databases]:
        first = (tmp_path / "one" / name).read_bytes()
        assert (tmp_path / "two" / name).read_bytes() == first
        assert (tmp_path / "three" / name).read_bytes() != first


def test_the_training_set_does_not_change_the_tests(tmp_path):
    make_task(tmp_path / "one", TINY)
    make_task(tmp_path / "two", replace(TINY, train=9))
    for name in ("test_in_domain", "test_out_of_domain"):
        assert read(tmp_path / "one", name) == read(tmp_path / "two", name)
    assert read(tmp_path / "one", "train") == read(tmp_path / "two", "train")[:4]


def test_a_rerun_skips_and_other_settings_do_not(tmp_path):
    assert make_task(tmp_path, TINY)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert not make_task(tmp_path, TINY)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert make_task(tmp_path, replace(TINY, train=5))
    assert len(read(tmp_path, "train")) == 5


def test_an_interrupted_task_is_made_anew(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    make_task(tmp_path, TINY)
    with monkeypatch.context() as patch:
        patch.setattr("rl.demo.task._write_parquet", interrupted)
        with pytest.raises(KeyboardInterrupt):
            make_task(tmp_path, replace(TINY, seed=9))
    assert make_task(tmp_path, TINY)
    assert json.loads((tmp_path / "task.json").read_text())["settings"]["seed"] == TINY.seed


def test_questions_that_are_not_to_be_found_are_an_error(databases, monkeypatch):
    split = replace(splits(TINY)[0], size=2)
    assert len({question.text for question in draw_questions(split, 0, databases, set())}) == 2
    monkeypatch.setattr("rl.demo.task.MOST_ROWS", 0)
    with pytest.raises(UserError, match="Only 0 of 2 different questions for test_in_domain were found in 100 draws"):
        draw_questions(split, 0, databases, set())


def test_the_program_writes_then_skips(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["task", "--out", str(tmp_path), "--train", "7", "--eval", "5", "--seed", "2"])
    main()
    assert capsys.readouterr().out == f"Wrote the demo task to {tmp_path}.\n"
    assert [len(read(tmp_path, name)) for name in SIZES] == [7, 5, 5, 6000]
    main()
    assert "skipped" in capsys.readouterr().out


def test_the_program_refuses_a_size(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["task", "--out", str(tmp_path / "task"), "--eval", "0"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "Error: The demo task's eval is 0; it must be at least 1.\n"
    assert not (tmp_path / "task").exists()


@pytest.mark.parametrize("text", ["no json", '{"settings": {}}'])
def test_a_foreign_mark_is_named(tmp_path, text):
    (tmp_path / "task.json").write_text(text)
    with pytest.raises(UserError, match="task.json"):
        make_task(tmp_path, TINY)
    assert (tmp_path / "task.json").read_text() == text
