"""Requests that a rollout server holds leave room for the call that lets them go on."""

from types import SimpleNamespace

from verl.workers.rollout.replica import RolloutReplica

from verl.dph.hf_rollout.replica import HFReplica
from verl.dph.training.held_requests import CALLS, make_room


def test_servers_of_every_engine_have_more_calls_than_a_step_and_its_warm_up_have_rollouts(monkeypatch):
    monkeypatch.setattr(RolloutReplica, "max_concurrency", RolloutReplica.max_concurrency)
    replica = object.__new__(HFReplica)
    replica.config = SimpleNamespace(max_num_seqs=1024)
    assert replica.max_concurrency == 1040
    make_room()
    assert replica.max_concurrency == CALLS > 2 * 128 * 16
