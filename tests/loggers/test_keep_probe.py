"""The keep-rate probe: what it reports in the real trainer, and which prompts it draws.

tests/resume shows that training goes on as without it, tests/trainer_modes has it in an asynchronous trainer.
"""

import pytest
from transformers import AutoTokenizer

from rl.common.errors import UserError
from rl.configuration.compose import compose
from verl.dph.training.keep_probe import KeepProbe

pytestmark = pytest.mark.timeout(600)


@pytest.mark.slow
def test_rates_of_a_policy_whose_answers_are_known(probed):
    for step in (0, 1, 2):
        rates = {name: probed.metrics[step][f"dph/{name}"] for name in ("keep_rate", "newly_solved", "keep_prompts")}
        assert rates == {"keep_rate": 3 / 4, "newly_solved": 2 / 4, "keep_prompts": 4}


@pytest.fixture(scope="module")
def drawn(task):
    """Ids of the prompts that a probe draws, by metric."""
    files = {"sft_files": "train_correct", "train_files": "train_wrong"}
    config = compose("dph_trainer", [f"data.{key}={task / name}.parquet" for key, name in files.items()])
    config.data.max_prompt_length = 8
    tokenizer = AutoTokenizer.from_pretrained(task / "model")

    def draw(stored, seed, prompts=2) -> list[list[int]]:
        config.data.sft_seed, config.trainer.keep_probe.prompts = seed, prompts
        probe = KeepProbe(config, tokenizer, None, stored)
        return [[item["id"] for item in items] for items in probe.items.values()]

    return draw


def test_prompts_are_drawn_by_the_seed_among_the_right_ones(drawn):
    stored, unsolved = {0, 1, 2, 3}, {5, 6, 7, 8}
    draws = [drawn(stored, seed) for seed in range(8)]
    assert draws[5] == drawn(stored, seed=5)
    for part, allowed in enumerate((stored, unsolved)):
        assert all(len(set(draw[part])) == 2 and set(draw[part]) <= allowed for draw in draws)
        assert {id for draw in draws for id in draw[part]} == allowed  # every one is drawn by some seed
    assert drawn(None, seed=1, prompts=99)[0] == [0, 1, 2, 3, 4]  # without a store, all of the file


def test_a_file_that_is_not_the_stores_is_rejected(drawn):
    with pytest.raises(UserError, match="train_correct.parquet holds no prompt of the D_pef store"):
        drawn({1000}, seed=1)
