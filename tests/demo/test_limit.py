"""How right a policy can be on the demo's ambiguous questions while it still solves both readings."""

import re

import pandas as pd
import pytest

from rl.demo.questions import SCHEMAS
from rl.demo.study import IN_DOMAIN_QUESTIONS
from rl.demo.task import TaskSettings, make_task
from tests.programs import REPOSITORY

PAGE = (REPOSITORY / "docs" / "explanation" / "study.md").read_text()


@pytest.fixture(scope="module")
def readings(tmp_path_factory) -> tuple[int, int, int]:
    """Test questions of the study in domain: plain, and ambiguous with the first or the second number as gold."""
    folder = tmp_path_factory.mktemp("study_task")
    make_task(folder, TaskSettings(seed=0, train=1, eval=1, sft=1, eval_in_domain=IN_DOMAIN_QUESTIONS))
    numbers = {schema.name: [column.name for column in schema.parent.numbers] for schema in SCHEMAS}
    counts = [0, 0, 0]
    for row in pd.read_parquet(folder / "test_in_domain.parquet").itertuples():
        column = re.match(r"SELECT (?:DISTINCT )?\w+\.(\w+)", row.reward_model["ground_truth"]["gold_sql"])[1]
        about = row.extra_info
        counts[1 + numbers[about["schema"]].index(column) if about["ambiguous"] else 0] += 1
    return tuple(counts)


def test_the_page_says_what_a_policy_could_reach(readings):
    plain, first, second = readings
    questions = sum(readings)

    def pass_at(k, q):
        return (plain + first * (1 - (1 - q) ** k) + second * (1 - q**k)) / questions

    assert f"{questions} questions in domain, {plain} are plain" in PAGE
    assert f"the first reading in {first} and the second in {second}" in PAGE
    assert f"for q = 1 it is {pass_at(1, 1):.3f}" in PAGE
    assert "for q = .9 {:.3f}, {:.3f} and {:.3f}".format(*(pass_at(k, 0.9) for k in (1, 8, 32))) in PAGE
    base, best = re.search(r"at the base's Pass@32 of (0\.\d+) is (0\.\d+)", PAGE).groups()
    shares = [n / 10_000 for n in range(5_000, 10_001)]
    assert best == f"{max(pass_at(1, q) for q in shares if pass_at(32, q) >= float(base)):.3f}"
