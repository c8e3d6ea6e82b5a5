"""The same bits after a stop: 6 steps at once equal 3, a new process from the checkpoint, and 3 more."""

import json

import numpy as np
import pytest
import torch
import torch.distributed.tensor  # makes sharded tensors known to torch.load
from safetensors.torch import load_file

from tests.resume.conftest import PROMPTS, STOP, TOTAL
from tests.tiny_run import assert_same

pytestmark = pytest.mark.timeout(900)

# Of numpy's generator, beside the schedule in one file.
RANDOM_STATE = [np._core.multiarray._reconstruct, np.ndarray, np.dtype, type(np.dtype(np.uint32))]


def same(left, right) -> bool:
    """Whether two states hold the same numbers, bit for bit."""
    if isinstance(left, torch.Tensor):
        left, right = (part.to_local() if hasattr(part, "to_local") else part for part in (left, right))
        return left.dtype == right.dtype and torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def test_every_metric_of_every_step_is_the_same(task):
    at_once, resumed = task.metrics("at_once"), task.metrics("resumed")
    assert list(at_once) == list(resumed) == list(range(1, TOTAL + 1))
    assert len({metrics["critic/score/mean"] for metrics in at_once.values()}) > 4  # so there are gradients
    assert len({metrics["dph/anchor_divergence"] for metrics in at_once.values()}) == TOTAL
    assert all(metrics.keys() == at_once[step].keys() for step, metrics in resumed.items())
    assert_same(at_once, resumed)


def test_rollout_and_actor_agree(task):
    assert all(metrics["training/rollout_probs_diff_mean"] < 1e-5 for metrics in task.metrics("resumed").values())


@pytest.mark.parametrize("step", [STOP, TOTAL])
def test_weights_are_the_same(task, step):
    at_once, resumed = (
        load_file(task.checkpoint(name, step) / "huggingface" / "model.safetensors") for name in ("at_once", "resumed")
    )
    assert at_once.keys() == resumed.keys() and at_once
    assert [name for name in at_once if not same(at_once[name], resumed[name])] == []


@pytest.mark.parametrize("step", [STOP, TOTAL])
def test_the_optimizer_and_its_schedule_are_the_same(task, step):
    """verl saves random states too, which it seeds by chance and which nothing here draws from."""

    def load(name, part):
        with torch.serialization.safe_globals(RANDOM_STATE):
            return torch.load(task.checkpoint(name, step) / f"{part}_world_size_1_rank_0.pt", weights_only=True)

    optimizers = [load(name, "optim") for name in ("at_once", "resumed")]
    schedules = [load(name, "extra_state")["lr_scheduler"] for name in ("at_once", "resumed")]
    assert optimizers[0]["state"] and same(*optimizers)
    assert schedules[0]["last_epoch"] == step and same(*schedules)


def test_the_record_equals_an_uninterrupted_runs(task):
    """Validations of both sessions, from which the best checkpoint is chosen."""
    at_once, resumed = (json.loads((task.runs / name / "dph_run.json").read_text()) for name in ("at_once", "resumed"))
    assert resumed == at_once
    metric = "dph/val_accuracy"
    of_steps = task.metrics("resumed")
    assert resumed["metric"] == metric
    assert resumed["validations"] == {str(step): of_steps[step][metric] for step in (STOP, TOTAL)}
    assert (resumed["step"], resumed["total_steps"], resumed["steps_per_epoch"]) == (TOTAL, TOTAL, PROMPTS // 4)
    assert resumed["checkpoints"] == [STOP, TOTAL]
    best = max((STOP, TOTAL), key=lambda step: of_steps[step][metric])
    assert (task.runs / "resumed" / "best_checkpointed_iteration.txt").read_text() == str(best)
