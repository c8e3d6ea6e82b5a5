"""SQLReward and MathReward: two steps of TRL's own GRPOTrainer against a running server, and what they reject."""

import asyncio
import re
import urllib.request
from pathlib import Path

import pytest
import torch
from datasets import Dataset

from rl.common.errors import UserError
from rl.scorer.client import MathReward, SQLReward
from rl.scorer.client.protocol import ScorerRefused, ScorerUnavailable
from tests.conftest import free_port, serving_sql

trl = pytest.importorskip("trl", reason="TRL is not installed: make test-trl")

NAMES, SHOP = "SELECT name FROM item", "shop/shop.sqlite"
# Whole responses are words, so that some are right from the first step.
RIGHT_SQL, WRONG_SQL = f"```sql\n{NAMES}\n```", "```sql\nSELECT id FROM item\n```"
RIGHT_SUM, WRONG_SUM = r"\boxed{4}", r"\boxed{5}"
WORDS = ["<pad>", "<eos>", "<unk>", "user", "which", "names", "sum", RIGHT_SQL, WRONG_SQL, RIGHT_SUM, WRONG_SUM]
TEMPLATE = "{% for message in messages %}{{ message['role'] }} {{ message['content'] }} {% endfor %}"

SQL_ROW = {"prompt": "which names", "db_id": SHOP, "gold_sql": NAMES, "ground_truth": None}
MATH_ROW = {"prompt": "which sum", "db_id": None, "gold_sql": None, "ground_truth": "4"}
BROKEN_ROW = SQL_ROW | {"gold_sql": "SELECT nothing FROM item"}


@pytest.fixture(scope="module")
def server(shop_databases, tmp_path_factory):
    """The address of a running server for SQL and math."""
    math = {"class_name": "MathRewardModel", "num_instances": 1}
    with serving_sql(shop_databases, tmp_path_factory.mktemp("scorer"), Scorer2=math) as address:
        yield address


@pytest.fixture
def trainer(word_llama, tmp_path: Path):
    """trainer(rewards, rows): a GRPOTrainer of a tiny model that makes eight responses of one word in each step."""

    def make(rewards: list, rows: list[dict]) -> trl.GRPOTrainer:
        word_llama(tmp_path / "model", WORDS, template=TEMPLATE)
        config = trl.GRPOConfig(
            output_dir=str(tmp_path / "out"),
            max_steps=2,
            per_device_train_batch_size=8,
            num_generations=4,
            max_completion_length=1,
            learning_rate=1e-3,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            bf16=False,
            seed=0,
        )
        return trl.GRPOTrainer(
            str(tmp_path / "model"), reward_funcs=rewards, args=config, train_dataset=Dataset.from_list(rows)
        )

    return make


def scored(server: str) -> dict[str, float]:
    """How many responses the server has scored, by outcome."""
    with urllib.request.urlopen(f"{server}/metrics") as reply:
        lines = re.findall(r'^scorer_answers_total\{outcome="(\w+)"\} (\S+)$', reply.read().decode(), re.MULTILINE)
    return {outcome: float(count) for outcome, count in lines}


def test_trl_trains_two_steps_on_sql_and_math(server, trainer):
    rows = [row | {"prompt": [{"role": "user", "content": row["prompt"]}]} for row in (SQL_ROW, MATH_ROW)]
    before = scored(server)
    grpo = trainer([SQLReward(server), MathReward(server)], rows)
    first = {name: value.clone() for name, value in grpo.model.named_parameters()}
    grpo.train()
    after = scored(server)
    counts = {outcome: count - before.get(outcome, 0) for outcome, count in after.items()}
    steps = [line for line in grpo.state.log_history if "reward" in line]
    assert len(steps) == 2 and sum(counts.values()) == 2 * 8
    # Each step has four responses to the SQL question and four to the sum.
    right = 4 * sum(line[f"rewards/{name}/mean"] for line in steps for name in ("SQLReward", "MathReward"))
    assert right == pytest.approx(counts["match"]) and 0 < right < 16
    assert all(line["scorer/unjudged"] == 0 for line in steps)
    assert any(not torch.equal(value, first[name]) for name, value in grpo.model.named_parameters())


def test_a_broken_reference_trains_nothing(server, trainer):
    grpo = trainer([SQLReward(server)], [BROKEN_ROW] * 2)
    first = {name: value.clone() for name, value in grpo.model.named_parameters()}
    grpo.train()
    assert scored(server)["gold_error"] >= 16
    assert [line["scorer/unjudged"] for line in grpo.state.log_history if "reward" in line] == [1, 1]
    assert all(torch.equal(value, first[name]) for name, value in grpo.model.named_parameters())


def test_a_server_that_is_gone_stops_training(trainer):
    with pytest.raises(ScorerUnavailable, match="No scorer answers"):
        trainer([SQLReward(f"http://127.0.0.1:{free_port()}", retries=0)], [SQL_ROW] * 2).train()


def rewards_of(reward, rows: list[dict], completions: list) -> list[float | None]:
    """What TRL would get for one completion of each row."""
    columns = {key: [row.get(key) for row in rows] for key in {key for row in rows for key in row} - {"prompt"}}
    return asyncio.run(reward(prompts=[row["prompt"] for row in rows], completions=completions, **columns))


def test_rewards_of_columns(server):
    reward, rows = SQLReward(server, cmp_method="spider"), [SQL_ROW | {"gold_sql": NAMES + " ORDER BY id"}] * 2
    reverse = f"```sql\n{NAMES} ORDER BY id DESC\n```"
    assert rewards_of(reward, rows, [RIGHT_SQL, reverse])[1] == pytest.approx(0.8)
    with_column = [row | {"cmp_method": "bird"} for row in rows]
    assert rewards_of(reward, with_column, [RIGHT_SQL, reverse]) == [1.0, 1.0]
    parts = [{"role": "assistant", "content": [{"type": "text", "text": RIGHT_SUM}]}]
    empty = [{"role": "assistant", "content": None, "tool_calls": []}]
    numbers = [{"prompt": "sum", "ground_truth": number} for number in (4, 4.0, float("nan"))]
    numbers += [MATH_ROW, MATH_ROW, SQL_ROW]
    completions = [parts, RIGHT_SUM, RIGHT_SUM, WRONG_SUM, empty, RIGHT_SQL]
    assert rewards_of(MathReward(server), numbers, completions) == [1.0, 1.0, None, 0.0, 0.0, None]


@pytest.mark.parametrize(
    "row, error, sentence",
    [
        ({"gold_sql": NAMES}, UserError, "SQLReward needs the column db_id, which the data set lacks"),
        (SQL_ROW | {"db_id": None}, UserError, "the column db_id of a row is None"),
        (SQL_ROW | {"db_id": "absent.sqlite"}, ScorerRefused, "absent.sqlite"),
    ],
)
def test_a_row_that_names_no_database_is_an_error(row, error, sentence, server):
    with pytest.raises(error, match=sentence):
        rewards_of(SQLReward(server), [{"prompt": "which"} | row], [RIGHT_SQL])


def test_a_ground_truth_that_is_no_answer_and_lists_of_two_lengths_are_errors(server):
    with pytest.raises(UserError, match="the column ground_truth of a row .* of type float: '0.5'"):
        rewards_of(MathReward(server), [{"prompt": "sum", "ground_truth": 0.5}], [RIGHT_SUM])
    with pytest.raises(UserError, match="the column ground_truth has 1 values for 2 completions"):
        rewards_of(MathReward(server), [MATH_ROW], [RIGHT_SUM] * 2)
