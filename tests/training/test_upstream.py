"""What we wrote again or rely on in verl 0.9.1: when a new verl changes it, these tests fail and name our side."""

import hashlib
import inspect
import os

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import verl.utils.model
from omegaconf import OmegaConf
from transfer_queue.controller import TransferQueueController
from transfer_queue.storage.simple_storage import SimpleStorageUnit
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.models.transformers.monkey_patch import apply_monkey_patch
from verl.single_controller.ray.base import ResourcePoolManager
from verl.trainer import main_ppo
from verl.trainer.ppo.padding_utils import SYNTHETIC_PADDING_SEQ_LEN
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY, PPOTrainer
from verl.utils.dataset import rl_dataset
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from verl.workers.rollout.llm_server import LLMServerClient, LLMServerManager
from verl.workers.rollout.replica import RolloutReplica

from rl.common import ray_cpus
from rl.configuration import PADDING_ROW
from verl.dph.main import read_checked_files
from verl.dph.training.rollout_ledger import NOTHING_CAME
from verl.dph.training.trainer import DPHTrainer

AGENT_LOOP, LEDGER = "verl.dph.cpu.agent_loop.", "verl.dph.training.rollout_ledger."
VERLS_WORKER = AgentLoopWorkerTQ.__ray_metadata__.modified_class
UPSTREAM = {
    "verl.dph.training.trainer.DPHTrainer._update_actor": (PPOTrainer._update_actor, "d7009bd8a69d40b9"),
    f"{LEDGER}RolloutLedger.name_prompts": (PPOTrainer._fetch_one_gen_batch, "d62e586d52057413"),
    f"{LEDGER}POLL_SECONDS": (ReplayBuffer._wait_for_next_poll, "10088bf03da69383"),
    f"{LEDGER}RolloutLedger._evict": (ReplayBuffer._evict_terminal_groups, "c2c224967f20c54b"),
    "verl.dph.training.trainer.DPHTrainer._val_metrics_update": (PPOTrainer._val_metrics_update, "8cecd418b5011bfc"),
    f"{LEDGER}_select_in_order": (ReplayBuffer._select_prompt_uids, "d54921984c037a78"),
    f"{AGENT_LOOP}BurstQueue": (VERLS_WORKER._agent_loop_postprocess, "523edacbff73640d"),
    f"{AGENT_LOOP}SharedAgentLoopWorker": (AgentLoopWorker._run_agent_loop, "32c3d607c5d4c9fa"),
    f"{AGENT_LOOP}SharedAgentLoopWorker.generate_sequences": (VERLS_WORKER.generate_sequences, "4d7178988eae6a71"),
    f"{AGENT_LOOP}SharedAgentLoopWorker._burst_of": (VERLS_WORKER._run_prompt, "3d9bca6b0ea5fe25"),
    f"{AGENT_LOOP}SharedAgentLoopManager": (AgentLoopManagerTQ.generate_sequences, "de5ab7fe338523ca"),
    f"{AGENT_LOOP}_LocalRewardWorker": (AgentLoopWorker._compute_score, "cf4b57719ad3c1b2"),
    "verl.dph.main._start": (main_ppo.run_ppo, "a65eddb189e56ae1"),
    "verl.dph.cpu.in_process.use_in_process_router": (LLMServerManager._init_global_load_balancer, "cc3dcac74089a597"),
    "verl.dph.hf_rollout.burst_client.BurstClient": (LLMServerClient.generate, "45f4cf4029f0be37"),
    "verl.dph.objective.log_probs.log_probs_of": (FSDPEngineWithLMHead.prepare_model_outputs, "5239f536e8f617e3"),
    "verl.dph.config.attention.use_configured_attention": (verl.utils.model.load_valuehead_model, "2371ca280654b53b"),
    "verl.dph.checks.model.lora, of a critic": (PPOTrainer._compute_values, "20df171612279e37"),
    "verl.dph.checks.model.ulysses": (apply_monkey_patch, "26dc9abe507b2eaf"),
}


@pytest.mark.parametrize("ours", UPSTREAM)
def test_upstream_is_what_ours_was_written_against(ours):
    function, expected = UPSTREAM[ours]
    source = inspect.getsource(inspect.unwrap(function))
    found = hashlib.sha256(source.encode()).hexdigest()[:16]
    assert found == expected, f"verl's {function.__qualname__} has changed: compare it with {ours}, then set {found}"


def test_verl_says_in_these_words_that_every_rollout_failed():
    assert NOTHING_CAME in inspect.getsource(inspect.unwrap(ReplayBuffer.sample))


def test_verls_padding_has_as_many_tokens_as_a_micro_batch_must_hold():
    assert PADDING_ROW == SYNTHETIC_PADDING_SEQ_LEN


def test_verls_trainer_is_found_where_ours_is_put():
    assert TRAINER_REGISTRY["sync"] in DPHTrainer.__bases__


def test_verl_reads_the_file_that_was_checked(tmp_path, monkeypatch):
    """By itself it reads run1 in place of run[1], and the first rows of a file that has changed in the same second."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(rl_dataset, "datasets", datasets)
    read_checked_files()
    for id, name in enumerate(("run1", "run[1]", "run[1]")):
        file = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"id": [id]}), file)
        os.utime(file, (1, 1))
        rows = rl_dataset.RLHFDataset([str(file)], None, OmegaConf.create({"filter_overlong_prompts": False}))
        assert rows.dataframe["id"][:] == [id]


def test_ray_s_cpus_are_reserved_as_counted():
    """rl/common/ray_cpus.py."""
    assert ResourcePoolManager({}, {}).max_colocate_count == ray_cpus.PER_RANK
    assert f"max_colocate_count={ray_cpus.PER_ROLLOUT_RANK}," in inspect.getsource(RolloutReplica.init_standalone)
    for actor in (TransferQueueController, SimpleStorageUnit):
        assert actor._default_options["num_cpus"] == 1
