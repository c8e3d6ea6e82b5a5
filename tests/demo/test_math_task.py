"""The files of the word problems: format, disjointness, determinism."""

import pyarrow.parquet as pq
import pytest

from rl.data.questions import scorer_question
from rl.demo.task import TaskSettings, make_math_task
from rl.demo.word_problems import IN_DOMAIN, OUT_OF_DOMAIN

SMALL = TaskSettings(seed=3, train=40, eval=10, eval_in_domain=20, sft=150)
SIZES = {"train": 40, "test_in_domain": 20, "test_out_of_domain": 10, "sft": 150}


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("task")
    make_math_task(folder, SMALL)
    return folder


def read(folder, name: str) -> list[dict]:
    return pq.read_table(folder / f"{name}.parquet").to_pylist()


def test_rows_have_the_format_of_math_and_no_problem_occurs_twice(task):
    rows = {name: read(task, name) for name in SIZES}
    assert {name: len(of_file) for name, of_file in rows.items()} == SIZES
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


def test_training_never_sees_the_things_out_of_domain(task):
    def scenes(name: str) -> set[str]:
        text = " ".join(row["prompt"][0]["content"] for row in read(task, name))
        return {scene.things for scene in IN_DOMAIN + OUT_OF_DOMAIN if scene.things in text}

    inside, outside = ({scene.things for scene in scenes} for scenes in (IN_DOMAIN, OUT_OF_DOMAIN))
    assert scenes("train") == scenes("test_in_domain") == inside
    assert scenes("test_out_of_domain") <= outside and scenes("sft") == inside | outside
