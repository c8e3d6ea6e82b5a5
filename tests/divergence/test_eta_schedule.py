"""eta in every step: the schedules, the controller of Ziegler et al. 2019 and its bounds."""

import json
import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.common.errors import UserError
from rl.configuration.training import Eta
from verl.dph.divergence.eta_schedule import WITH_WARMUP, EtaControl, EtaSchedule


def made(eta=0.2, total_steps=100, **control) -> EtaSchedule:
    schedule = EtaSchedule(EtaControl(**control), eta)
    schedule.span(total_steps)
    return schedule


def held_at(target_kl, eta=0.2, **control) -> EtaSchedule:
    return made(eta, type="target_kl", target_kl=target_kl, **control)


SCHEDULES = [
    (made(), [0.2] * 5),
    (made(type="warmup", warmup_steps=4), [0.05, 0.1, 0.15, 0.2, 0.2]),
    # p = 0, 1/4, 1/2, 3/4, 1; (1 + cos(pi p))/2 = 1, .8535534, .5, .1464466, 0
    (made(total_steps=5, type="cosine", final_ratio=0.5), [0.2, 0.18535534, 0.15, 0.11464466, 0.1]),
    # the last one is beyond the end
    (made(1.0, 6, type="cosine", warmup_steps=2), [0.5, 1.0, 0.8535534, 0.5, 0.1464466, 0.0, 0.0]),
    (made(total_steps=1, type="cosine"), [0.2]),
]


def test_every_type_of_the_setting_is_computed_by_hand_here():
    types = {schedule.control.type for schedule, _ in SCHEDULES} | {held_at(0.1).control.type}
    assert types == set(get_args(Eta.__annotations__["type"]))


@pytest.mark.parametrize("kind", get_args(Eta.__annotations__["type"]))
def test_only_the_types_with_a_warm_up_begin_below_eta(kind):
    schedule = made(1.0, total_steps=10, type=kind, warmup_steps=4, target_kl=0.1)
    assert schedule.value(1) == (0.25 if kind in WITH_WARMUP else 1)


@pytest.mark.parametrize(("schedule", "expected"), SCHEDULES)
def test_schedules_by_hand(schedule, expected):
    schedule.observe(7.0)  # no schedule follows the KL
    assert [schedule.value(step) for step in range(1, len(expected) + 1)] == pytest.approx(expected, abs=1e-7)


def test_controller_by_hand():
    schedule = held_at(0.1, eta=0.2, gain=0.5)
    assert schedule.value(1) == 0.2
    steps = [
        (0.11, 0.2 * 1.05),  # e = 0.1
        (5.0, 0.2 * 1.05 * 1.1),  # e clipped to 0.2
        (0.1, 0.2 * 1.05 * 1.1),  # on the budget
        (0.09, 0.2 * 1.05 * 1.1 * 0.95),  # e = -0.1
        (0.0, 0.2 * 1.05 * 1.1 * 0.95 * 0.9),  # e clipped to -0.2
    ]
    for kl, expected in steps:
        schedule.observe(kl)
        assert schedule.value(2) == pytest.approx(expected, rel=1e-12)


kls = st.floats(0, allow_nan=False)  # infinity too


@given(st.lists(kls, max_size=60), st.floats(1e-6, 1e6), st.floats(0.01, 4.99))
def test_the_controller_stays_within_its_bounds(observed, target, gain):
    schedule = held_at(target, eta=0.2, min_coeff=0.15, max_coeff=0.3, gain=gain)
    for kl in observed:
        schedule.observe(kl)
        assert 0.15 <= schedule.value(1) <= 0.3


@given(st.lists(kls, max_size=20), st.lists(kls, max_size=20))
def test_a_restored_controller_continues(before, after):
    schedule = held_at(0.05)
    for kl in before:
        schedule.observe(kl)
    resumed = held_at(0.05)
    resumed.load_state_dict(json.loads(json.dumps(schedule.state_dict())))
    for kl in after:
        schedule.observe(kl)
        resumed.observe(kl)
    assert resumed.value(1) == schedule.value(1)


def test_a_restored_controller_keeps_to_narrower_bounds():
    schedule = held_at(0.05, eta=0.01, max_coeff=0.1)
    schedule.load_state_dict(held_at(0.05, eta=0.9).state_dict())
    assert schedule.value(1) == 0.1


def test_a_state_of_another_type_is_rejected():
    with pytest.raises(ValueError, match="type constant, this run has target_kl"):
        held_at(0.05).load_state_dict(made().state_dict())


def test_training_that_diverged_is_named():
    with pytest.raises(UserError, match="not a number"):
        held_at(0.05).observe(math.nan)
    made().observe(math.nan)  # a constant does not follow it


def test_a_warmup_longer_than_the_run_is_rejected():
    with pytest.raises(UserError, match="warmup_steps=100 leaves nothing of the run's 100 steps"):
        made(0.2, total_steps=100, type="cosine", warmup_steps=100)


def test_a_warmup_that_does_not_reach_eta_is_warned_of(caplog):
    made(0.2, total_steps=100, type="warmup", warmup_steps=100)
    assert not caplog.messages
    made(0.2, total_steps=100, type="warmup", warmup_steps=1000)
    assert caplog.messages == [
        "eta is at most 0.02: actor.sft_loss_control.warmup_steps=1000, and the run has 100 steps"
    ]
