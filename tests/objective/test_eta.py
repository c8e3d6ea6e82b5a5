"""eta in every step of every schedule."""

import pytest

from rl.common.errors import UserError
from verl.dph.objective.eta import EtaSchedule
from verl.dph.training.config import EtaControl


def made(eta=0.2, total_steps=100, **control) -> EtaSchedule:
    schedule = EtaSchedule(EtaControl(**control), eta)
    schedule.span(total_steps)
    return schedule


SCHEDULES = [
    (made(), [0.2] * 5),
    (made(type="warmup", warmup_steps=4), [0.05, 0.1, 0.15, 0.2, 0.2]),
    # p = 0, 1/4, 1/2, 3/4, 1; (1 + cos(pi p))/2 = 1, .8535534, .5, .1464466, 0
    (made(total_steps=5, type="cosine", final_ratio=0.5), [0.2, 0.18535534, 0.15, 0.11464466, 0.1]),
    # the last one is beyond the end
    (made(1.0, 6, type="cosine", warmup_steps=2), [0.5, 1.0, 0.8535534, 0.5, 0.1464466, 0.0, 0.0]),
    (made(total_steps=1, type="cosine"), [0.2]),
]


@pytest.mark.parametrize(("schedule", "expected"), SCHEDULES)
def test_schedules_by_hand(schedule, expected):
    assert [schedule.value(step) for step in range(1, len(expected) + 1)] == pytest.approx(expected, abs=1e-7)


def test_a_warmup_that_is_too_long_for_the_run_is_warned_of(caplog):
    made(0.2, total_steps=100, type="warmup", warmup_steps=100)
    assert not caplog.messages
    made(0.2, total_steps=100, type="warmup", warmup_steps=1000)
    assert [message.split(": ")[1] for message in caplog.messages] == ["eta is at most 0.02"]
    with pytest.raises(UserError, match="warmup_steps=100 is too long for the run's 100 steps, and leaves none to"):
        made(0.2, total_steps=100, type="cosine", warmup_steps=100)
