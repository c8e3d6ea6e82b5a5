"""Settings of a trainer that cannot work are refused before Ray starts, in one sentence that names them."""

import pytest
from hydra import compose, initialize_config_dir

from rl.common.errors import UserError
from verl.dph.config.program import CONFIG_DIR
from verl.dph.training import checks
from verl.dph.training.config import mini_batches

SEPARATE = {
    "trainer__v1__trainer_mode": "separate_async",
    "trainer__v1__separate_async__parameter_sync_step": 2,
    "actor_rollout_ref__rollout__nnodes": 1,
    "actor_rollout_ref__rollout__checkpoint_engine__backend": "gloo",
}


@pytest.fixture
def check(training, monkeypatch):
    """Compose the settings of a run with changes, and check them."""
    monkeypatch.setenv("VERL_PLATFORM", "cpu")

    def check(**changes):
        values = training.settings("refused", **changes)
        with initialize_config_dir(str(CONFIG_DIR), version_base=None):
            config = compose("dph_trainer", [f"{key}={value}" for key, value in values.items()])
        checks.check(config)
        return config

    return check


@pytest.mark.parametrize("mode", [{}, {"trainer__v1__trainer_mode": "colocate_async"}, SEPARATE])
def test_a_step_has_its_rows_of_d_pef_in_every_mode(check, mode):
    assert mini_batches(check(**mode)) == 2


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"trainer__v1__trainer_mode": "fast"}, "trainer_mode='fast' is unknown: use one of sync, colocate_async"),
        (
            {"trainer__v1__trainer_mode": "colocate_async", "actor_rollout_ref__actor__generate_sft": True},
            "needs no trainer.v1.trainer_mode=colocate_async: use sync",
        ),
        (
            SEPARATE | {"trainer__v1__separate_async__parameter_sync_step": 4},
            "data.train_batch_size=4 is not trainer.v1.separate_async.parameter_sync_step=4 x actor.ppo_mini_batch",
        ),
        (SEPARATE | {"actor_rollout_ref__rollout__nnodes": 0}, "set actor_rollout_ref.rollout.nnodes and"),
        (
            SEPARATE | {"actor_rollout_ref__rollout__checkpoint_engine__backend": "naive"},
            "checkpoint_engine.backend=naive does not carry weights to rollouts on devices of their own: use gloo",
        ),
        (
            SEPARATE | {"actor_rollout_ref__rollout__checkpoint_engine__backend": "nccl"},
            "checkpoint_engine.backend=nccl does not carry weights",
        ),
        (SEPARATE | {"data__sft_batch_size": 5}, "data.sft_batch_size=5 does not divide over 2 mini-batches"),
    ],
)
def test_a_mode_that_cannot_work_is_refused(check, changes, sentence):
    with pytest.raises(UserError) as error:
        check(**changes)
    assert sentence in str(error.value) and "\n" not in str(error.value)
