"""What we wrote again or rely on in verl 0.9.1: when a new verl changes it, these tests fail and name our side."""

import hashlib
import inspect

import pytest

from verl.dph.trainer import NOTHING_CAME
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY, PPOTrainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from verl.workers.rollout.llm_server import LLMServerClient

UPSTREAM = {
    "verl.dph.trainer.DPHTrainer._update_actor": (PPOTrainer._update_actor, "d7009bd8a69d40b9"),
    "verl.dph.trainer.DPHTrainer._fetch_one_gen_batch": (PPOTrainer._fetch_one_gen_batch, "d62e586d52057413"),
    "verl.dph.cpu.agent_loop.BurstQueue": (
        AgentLoopWorkerTQ.__ray_metadata__.modified_class._agent_loop_postprocess,
        "523edacbff73640d",
    ),
    "verl.dph.cpu.agent_loop.SharedAgentLoopWorker": (AgentLoopWorker._run_agent_loop, "32c3d607c5d4c9fa"),
    "verl.dph.cpu.agent_loop._LocalRewardWorker": (AgentLoopWorker._compute_score, "cf4b57719ad3c1b2"),
    "verl.dph.cpu.burst_client.BurstClient": (LLMServerClient.generate, "45f4cf4029f0be37"),
    "verl.dph.cpu.engine.log_probs_from_logits": (FSDPEngineWithLMHead.prepare_model_outputs, "5239f536e8f617e3"),
}


@pytest.mark.parametrize("ours", UPSTREAM)
def test_upstream_is_what_ours_was_written_against(ours):
    function, expected = UPSTREAM[ours]
    source = inspect.getsource(inspect.unwrap(function))
    found = hashlib.sha256(source.encode()).hexdigest()[:16]
    assert found == expected, f"verl's {function.__qualname__} has changed: compare it with {ours}, then set {found}"


def test_verl_says_in_these_words_that_every_rollout_failed():
    assert NOTHING_CAME in inspect.getsource(inspect.unwrap(ReplayBuffer.sample))


def test_the_synchronous_trainer_is_found_where_ours_is_put():
    assert TRAINER_REGISTRY["sync"] is PPOTrainerSync
