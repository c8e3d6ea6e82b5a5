"""The files of the task: format, disjointness, determinism."""

from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from rl.data.questions import scorer_question
from rl.demo import word_problems
from rl.demo.questions import PARENT_ROWS, SCHEMAS, STYLE_NAMES
from rl.demo.task import MOST_ROWS, TaskSettings, make_math_task, make_task
from rl.demo.tokenizer import QUESTION_HEADING

SIZES = {"train": 40, "test_in_domain": 20, "test_out_of_domain": 20, "sft": 150}
MATH_SIZES = {"train": 40, "test_in_domain": 20, "test_out_of_domain": 10, "sft": 150}
TINY = TaskSettings(seed=3, train=4, eval=3, sft=5)


@pytest.fixture(scope="module")
def math_task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("math") / "task"
    make_math_task(folder, TaskSettings(seed=3, train=40, eval=10, eval_in_domain=20, sft=150))
    return folder


def read(folder, name: str) -> list[dict]:
    return pq.read_table(folder / f"{name}.parquet").to_pylist()


def question_of(row: dict) -> str:
    lines = row["prompt"][0]["content"].splitlines()
    return lines[lines.index(QUESTION_HEADING) + 1]


def test_rows_have_the_papers_format_and_gold_that_runs(small_task, databases):
    rows = {name: read(small_task, name) for name in SIZES}
    for name, of_file in rows.items():
        assert len(of_file) == SIZES[name]
        for index, row in enumerate(of_file):
            truth, schema = row["reward_model"]["ground_truth"], row["extra_info"]["schema"]
            assert (row["data_source"], row["reward_model"]["style"]) == ("sql", "rule")
            assert [message["role"] for message in row["prompt"]] == ["user"]
            assert set(truth) == {"db_id", "gold_sql", "cmp_method"} and truth["cmp_method"] == "bird"
            assert (row["extra_info"]["index"], row["extra_info"]["split"]) == (index, name)
            assert truth["db_id"] == f"{schema}/{schema}.sqlite" and question_of(row).startswith(schema + " : ")
            gold = set(databases[schema].execute(truth["gold_sql"]))
            assert 0 < len(gold) <= MOST_ROWS < PARENT_ROWS
            assert ("solutions" in row) == (name == "sft")
            for style, solution in zip(STYLE_NAMES, row.get("solutions", ()), strict=name == "sft"):
                assert solution.startswith(f"/*{style}*/ ") and set(databases[schema].execute(solution)) == gold
    everything = [row for of_file in rows.values() for row in of_file]
    assert len({question_of(row) for row in everything}) == len({row["id"] for row in everything}) == 230
    schemas = {name: {row["extra_info"]["schema"] for row in of_file} for name, of_file in rows.items()}
    assert schemas["train"] == schemas["test_in_domain"] == {"shop", "school"}
    assert schemas["test_out_of_domain"] == {"flights", "clinic"} and len(schemas["sft"]) == 4


def test_a_seed_decides_every_byte_and_the_training_set_changes_no_test_set(tmp_path):
    settings = {"one": TINY, "same": TINY, "seed": replace(TINY, seed=4), "larger": replace(TINY, train=9)}
    for folder, of_folder in settings.items():
        make_task(tmp_path / folder, of_folder)
    files = [f"{name}.parquet" for name in (*SIZES, "anchor")]
    for name in [*files, *(f"databases/{schema.db_id}" for schema in SCHEMAS)]:
        one, same, seed = ((tmp_path / folder / name).read_bytes() for folder in ("one", "same", "seed"))
        assert one == same != seed
    for name in ("test_in_domain", "test_out_of_domain"):
        assert read(tmp_path / "one", name) == read(tmp_path / "larger", name)
    assert read(tmp_path / "one", "train") == read(tmp_path / "larger", "train")[:4]


def test_the_anchor_has_prompts_alone_about_one_database_out_of_domain(small_task):
    rows = read(small_task, "anchor")
    assert len(rows) == len({question_of(row) for row in rows}) == 256 and {*rows[0]} == {"id", "prompt"}
    assert {question_of(row).partition(" ")[0] for row in rows} == {"flights"}
    others = [row for name in SIZES for row in read(small_task, name)]
    assert not {row["id"] for row in rows} & {row["id"] for row in others}
    assert not {question_of(row) for row in rows} & {question_of(row) for row in others}


def test_rows_have_the_format_of_math_and_no_problem_occurs_twice(math_task):
    rows = {name: read(math_task, name) for name in MATH_SIZES}
    assert {name: len(of_file) for name, of_file in rows.items()} == MATH_SIZES
    for name, of_file in rows.items():
        for index, row in enumerate(of_file):
            truth = row["reward_model"]["ground_truth"]
            assert scorer_question(row["data_source"], truth) == {"ground_truth": truth} and int(truth) > 0
            [message] = row["prompt"]
            assert message["role"] == "user" and message["content"].endswith("within \\boxed{}.")
            assert (row["extra_info"]["index"], row["extra_info"]["split"]) == (index, name)
            assert ("solutions" in row) == (name == "sft")
            assert all(f"\\boxed{{{truth}}}" in solution for solution in row.get("solutions", ()))
    everything = [row for of_file in rows.values() for row in of_file]
    assert len({row["id"] for row in everything}) == len({str(row["prompt"]) for row in everything}) == 220


def test_training_never_sees_the_things_out_of_domain(math_task):
    def scenes(name: str) -> set[str]:
        text = " ".join(row["prompt"][0]["content"] for row in read(math_task, name))
        return {scene.things for scene in word_problems.IN_DOMAIN + word_problems.OUT_OF_DOMAIN if scene.things in text}

    inside, outside = (
        {scene.things for scene in scenes} for scenes in (word_problems.IN_DOMAIN, word_problems.OUT_OF_DOMAIN)
    )
    assert scenes("train") == scenes("test_in_domain") == inside
    assert scenes("test_out_of_domain") <= outside and scenes("sft") == inside | outside
