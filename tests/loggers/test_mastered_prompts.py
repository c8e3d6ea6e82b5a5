"""data.sft_refresh in the real trainer, on a policy whose answers are known (conftest.py), at once and resumed."""

import json
from collections import defaultdict

import pytest
import torch
from transformers import LlamaForCausalLM

from tests.loggers.conftest import END, EXPLORED, PROBE, RIGHT, SOLVED, STORED, WORDS, Run, prompt_of
from tests.tiny_run import assert_same
from verl.dph.pef.store import Store
from verl.dph.training.mastered_prompts import FILE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

STEPS, SAVED, REFRESH = 8, 4, 2
LOST = 3  # of D_pef, "bad": the policy answers it wrong
ID_OF = {" ".join(prompt_of(kind, id)): id for id, (kind, _) in enumerate([*SOLVED, *EXPLORED])}
SETTINGS = PROBE | {
    "trainer.logger": "[console,file]",
    "trainer.total_training_steps": STEPS,
    "trainer.val_before_train": False,
    "trainer.test_freq": REFRESH,
    "trainer.save_freq": SAVED,
    "data.sft_refresh": REFRESH,
    "data.sft_refresh_groups": 1,
}


def train(task, name, **settings) -> tuple[Run, dict[int, dict[int, list[float]]]]:
    """The run, and its rollouts' scores by step and prompt."""
    run = Run(task, name, SETTINGS | settings | {"trainer.rollout_data_dir": task / name / "rollouts"})
    scores = {}
    for step in run.metrics:
        scores[step] = defaultdict(list)
        for line in map(json.loads, (task / name / "rollouts" / f"{step}.jsonl").read_text().splitlines()):
            scores[step][ID_OF[line["input"]]].append(line["score"])
    return run, scores


@pytest.fixture(scope="module")
def at_once(task):
    return train(task, "refreshed")


def test_mastered_prompts_are_rehearsed_and_no_longer_explored(at_once, task):
    run, scores = at_once
    count, newest, ever, mastered = 0, set(), set(), set()
    for step, metrics in run.metrics.items():
        assert not set(scores[step]) & newest, f"step {step} explores what it rehearses"
        assert sum(map(len, scores[step].values())) == 16 and metrics["dph/rows"] == 4
        for id, found in scores[step].items():
            (mastered.add if all(found) else mastered.discard)(id)
        if step % REFRESH == 0:
            count, newest, mastered = min(count + len(mastered), STORED), mastered, set()
            ever |= newest
        assert metrics["dph/mastered_prompts"] == count and metrics["dph/mastered_rows"] == 4 * count
    good = {id for id, (kind, _) in enumerate([*SOLVED, *EXPLORED]) if kind == "good" and id >= len(SOLVED)}
    assert good <= ever and count == STORED
    assert run.metrics[STEPS]["dph/mastered_keep_rate"] == 1.0

    store = Store.load(str(run.folder / f"global_step_{SAVED}" / FILE))
    step_of = dict(json.loads(store.meta["state"])["steps"])
    assert {row.id for row in store.rows} == set(step_of) and all(all(scores[step_of[id]][id]) for id in step_of)
    policy = LlamaForCausalLM.from_pretrained(task / "model")
    of_initial_policy = [row for row in store.rows if step_of[row.id] == 1]
    assert of_initial_policy
    for row in of_initial_policy:
        assert row.response.tolist() == [RIGHT, END] and ID_OF[" ".join(WORDS[i] for i in row.prompt)] == row.id
        with torch.no_grad():
            logits = policy(torch.cat([row.prompt, row.response])[None].long()).logits[0, 1:-1]
        expected = logits.log_softmax(-1).gather(1, row.response.long()[:, None])[:, 0]
        torch.testing.assert_close(row.ref_log_probs, expected, atol=1e-4, rtol=0)


def test_lost_prompts_are_explored_again_from_the_next_refresh_on(at_once):
    run, scores = at_once
    assert [run.metrics[step]["dph/returned_prompts"] for step in range(1, STEPS + 1)] == [0] * 3 + [1] * 5
    explored = [step for step in scores if LOST in scores[step]]
    assert explored and min(explored) > 2 * REFRESH, explored  # found lost in step 2, after its refresh
    assert not any(set(range(len(SOLVED))) - {LOST} & set(scores[step]) for step in scores)


def test_a_resumed_run_is_the_same(at_once, task):
    run, scores = at_once
    folder = run.folder / f"global_step_{SAVED}"
    resumed, again = train(
        task, "refreshed_again", **{"trainer.resume_mode": "resume_path", "trainer.resume_from_path": folder}
    )
    assert list(again) == list(range(SAVED + 1, STEPS + 1))
    assert again == {step: scores[step] for step in again}
    assert_same({step: run.metrics[step] for step in again}, resumed.metrics)
