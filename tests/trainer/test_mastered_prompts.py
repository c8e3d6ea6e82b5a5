"""D_pef that lives: when a prompt is mastered, what a refresh changes, and that a checkpoint has all of it."""

from collections import Counter
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

from rl.common.errors import UserError
from tests.trainer.conftest import dataset_row
from tests.trainer.test_diversity import Queue
from verl.dph.pef.store import Row, Store
from verl.dph.training import living_pef, mastered_prompts
from verl.dph.training.living_pef import groups_of
from verl.dph.training.mastered_prompts import Group, MasteredPrompts, rehearsed_rows
from verl.dph.training.rollout_accounting import Scored
from verl.dph.training.trainer import SyncTrainer

D_EXP, D_PEF = range(10), range(100, 103)
END = 1


def group(id, step=1) -> Group:
    return Group(step, [Row(id, torch.tensor([id, 4]), torch.tensor([5 + i, END]), torch.rand(2)) for i in range(2)])


def mastered(prompts: MasteredPrompts, *ids, step=1) -> None:
    for id in ids:
        prompts.observe(id, [True, True], 2, group(id, step))


@pytest.fixture
def prompts() -> MasteredPrompts:
    return MasteredPrompts(set(D_EXP), groups=1, capacity=3)


def test_so_many_groups_in_a_row_are_all_correct():
    prompts = MasteredPrompts(set(D_EXP), groups=2, capacity=3)
    steps = {
        1: [[1, 1], [1, 1], [1, 1], [1, 0], [1, 1]],
        2: [[1, 1], [1, 0], [1], [1, 1], [0]],  # two groups have a failed rollout
        3: [[1, 1], [1, 1], [1, 1], [1, 0], [1, 1]],
    }
    for step, groups in steps.items():
        for id, correct in enumerate(groups):
            prompts.observe(id, [bool(one) for one in correct], 2, group(id, step))
    assert prompts.refresh()
    assert {id: found.step for id, found in prompts.rehearsed.items()} == {0: 3, 2: 3}


def test_the_oldest_make_room_and_must_be_mastered_anew(prompts):
    mastered(prompts, 1, 2)
    assert prompts.rehearsed == {}  # until the refresh
    assert prompts.refresh() and not prompts.refresh()
    mastered(prompts, 3, 4, step=5)
    assert prompts.refresh()
    assert list(prompts.rehearsed) == [2, 3, 4] and prompts.streaks == {}
    assert prompts.metrics() == {"dph/mastered_prompts": 3, "dph/mastered_rows": 6, "dph/returned_prompts": 0}


def test_lost_prompts_return_and_can_be_mastered_again(prompts):
    mastered(prompts, 1, 2)
    prompts.refresh()
    prompts.lost = [1, 100, 101]  # a mastered one, and two of D_pef
    assert prompts.refresh()
    assert list(prompts.rehearsed) == [2] and prompts.returned == [100, 101]
    mastered(prompts, 101)
    prompts.lost = [100]
    prompts.refresh()
    assert list(prompts.rehearsed) == [2, 101] and prompts.returned == [100]
    prompts.lost = [101]
    prompts.refresh()
    assert list(prompts.rehearsed) == [2] and prompts.returned == [100, 101]


def test_a_returned_prompt_comes_up_as_often_as_another(prompts):
    seeds = [(1, step, number) for step in range(500) for number in range(4)]
    assert {prompts.returned_prompt(seed) for seed in seeds} == {None}
    mastered(prompts, 1, 2)
    prompts.lost = [100, 101]
    prompts.refresh()
    drawn = Counter(prompts.returned_prompt(seed) for seed in seeds)
    assert drawn == Counter(prompts.returned_prompt(seed) for seed in seeds)
    assert set(drawn) == {None, 100, 101}
    for id in (100, 101):  # 8 D_exp prompts are explored beside the two: 200 of 2,000, give or take 4 deviations
        assert abs(drawn[id] - 200) < 4 * (2000 * 0.1 * 0.9) ** 0.5


def test_a_checkpoint_has_what_is_rehearsed_and_what_waits(prompts, tmp_path):
    prompts.save(tmp_path)  # nothing yet
    assert rehearsed_rows(tmp_path) == []
    mastered(prompts, 1, 2)
    prompts.lost = [100]
    prompts.refresh()
    prompts.observe(7, [True, True], 2, group(7, step=4))
    prompts.lost = [101]
    prompts.save(tmp_path)
    again = MasteredPrompts(set(D_EXP), groups=1, capacity=3)
    again.load(tmp_path)
    assert (again.streaks, again.returned, again.lost) == ({7: 1}, [100], [101])
    for name in ("rehearsed", "mastered"):
        before, found = getattr(prompts, name), getattr(again, name)
        assert list(found) == list(before) and found
        for id in before:
            assert found[id].step == before[id].step
            for one, other in zip(found[id].rows, before[id].rows, strict=True):
                assert one.id == id and torch.equal(one.prompt, other.prompt)
                assert torch.equal(one.response, other.response) and torch.equal(one.ref_log_probs, other.ref_log_probs)
    assert [row.id for row in rehearsed_rows(tmp_path)] == [1, 1, 2, 2]
    assert rehearsed_rows(tmp_path / "older") == []
    with pytest.raises(UserError, match="was made with another model"):  # it is no store of the initial policy's
        Store.load(str(tmp_path / mastered_prompts.FILE)).check_origin("pef.pt", model_hash="a" * 64)


def test_it_holds_at_most_as_much_as_d_pef_and_leaves_a_step_enough():
    data = SimpleNamespace(train_batch_size=4, sft_refresh=2, sft_refresh_groups=3)
    store = Store({}, [row for id in D_PEF for row in group(id).rows])
    assert MasteredPrompts.of_run(data, set(D_EXP), store).capacity == 3
    assert MasteredPrompts.of_run(data, set(range(6)), store).capacity == 2
    with pytest.raises(UserError, match="data.sft_refresh=2 lets prompts rest .* has 4, which a step of .*=4 needs"):
        MasteredPrompts.of_run(data, set(range(4)), store)


def test_whole_responses_of_groups_that_are_all_correct(monkeypatch):
    def row(id, response, mask=None):
        return {
            "id": id,
            "prompts": torch.tensor([id, 4]),
            "responses": torch.tensor(response),
            "response_mask": torch.tensor(mask or [1] * len(response)),
            "old_log_probs": torch.arange(len(response), dtype=torch.bfloat16),
        }

    rows = {
        "p_0_0": row(7, [5, END]),
        "p_1_0": row(7, [5, 5, 5]),  # cut off
        "p_2_0": row(7, [5, 6, END], mask=[1, 0, 1]),  # with what a tool said
        "p_3_0": row(7, [6, 6, END]),
        "q_0_0": row(8, [5, END]),
        "q_1_0": row(8, [6, END]),
    }
    monkeypatch.setattr(living_pef, "tq", Queue(rows))
    scored = [Scored(key, "sql", 0.5, {"acc": int(key != "q_1_0")}) for key in rows]
    (first, all_correct, found), second = groups_of(scored, "train", step=3, ends={END})
    assert (first, all_correct, found.step) == (7, [True] * 4, 3)
    assert [r.response.tolist() for r in found.rows] == [[5, END], [6, 6, END]]
    assert [r.prompt.tolist() for r in found.rows] == [[7, 4]] * 2
    assert torch.equal(found.rows[1].ref_log_probs, torch.tensor([0.0, 1.0, 2.0]))
    assert second == (8, [True, False], Group(3, []))


# ------------------------------------------------------------------------------------- the trainer, as far as it draws


@pytest.fixture
def trainer(run, tmp_path):
    """A function that makes a trainer with its data loader, of 8 D_exp and 8 D_pef prompts; 4 in a step."""
    exp, pef = tmp_path / "exp.parquet", tmp_path / "pef.parquet"
    pd.DataFrame([dataset_row(100 + i, base_correct=0) for i in range(8)]).to_parquet(exp)
    pd.DataFrame([dataset_row(i, base_correct=8) for i in range(8)]).to_parquet(pef)
    changes = {
        "data.train_files": str(exp),
        "data.sft_files": str(pef),
        "data.train_batch_size": 4,
        "data.seed": 1,
        "data.sft_refresh": 2,
        "data.sft_refresh_groups": 1,
        "trainer.keep_probe.prompts": 8,
        "trainer.test_freq": 2,
    }
    config = run.prepare(changes)

    def make() -> SyncTrainer:
        made = SyncTrainer(config.copy())
        made.global_steps = 1
        made._init_tokenizer()
        made._init_dataloader()
        return made

    return make


def draw(trainer: SyncTrainer, steps: int) -> list[list[int]]:
    """The prompts of the next steps."""
    found = []
    for _ in range(steps):
        found.append(list(trainer._next_train_batch()["id"]))
        trainer.global_steps += 1
    return found


def test_a_step_passes_over_what_is_rehearsed_and_draws_what_is_lost(trainer, tmp_path):
    first = trainer()
    explored = set(range(100, 108))
    assert {id for step in draw(first, 2) for id in step} == explored  # an epoch
    mastered(first.mastered, 101, 102)
    first.mastered.lost = [3]
    first.mastered.refresh()
    first.mastered.save(tmp_path)
    state = first.train_dataloader.state_dict()

    later = draw(first, 12)
    seen = Counter(id for step in later for id in step)
    assert set(seen) == explored - {101, 102} | {3} and all(len(step) == 4 for step in later)
    batch = first._next_train_batch()
    assert list(batch["uid"]) == [f"step{first.global_steps:08d}-{i:06d}" for i in range(4)]

    again = trainer()
    again.train_dataloader.load_state_dict(state)
    again.mastered.load(tmp_path)
    again.global_steps = 3
    assert draw(again, 12) == later


def test_an_epoch_of_the_rehearsal_begins_with_the_new_rows(trainer):
    found = trainer()
    found._next_rows()
    mastered(found.mastered, 101)
    found.mastered.refresh()
    found._rehearse(found.mastered.rows)
    assert (found.order.epoch, found.order.position) == (1, 0)
    visited = Counter(row.id for _ in range(9) for row in found._next_rows())  # 8 rows each
    assert set(visited.values()) == {8} and set(visited) == {*range(8), 101}
