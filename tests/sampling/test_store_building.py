"""How the store is built: what the trainer's rollout servers and its training engine do, and in which order.

The programs are the real ones but for the engines, which record their calls; tests/end_to_end has a real run.
"""

import logging
from types import SimpleNamespace

import hydra
import pyarrow.parquet as pq
import pytest
import torch
from verl.checkpoint_engine.base import CheckpointEngineManager
from verl.workers.config import CheckpointEngineConfig

from verl.dph.config.program import CONFIG_DIR
from verl.dph.pef import build
from verl.dph.pef.store import Store

SAMPLES, SLEEPS, REFERENCE = "samples", "sleeps", "reference"
REPLICAS, TOP_K = 2, 8


class Replica:
    """A rollout server that is awake, as verl's trainers leave it after their set-up (on_init_end)."""

    def __init__(self, events: list[str]):
        self.events, self.awake = events, True

    async def sleep(self) -> None:
        self.awake = False
        self.events.append(SLEEPS)


class RecordingTrainer:
    """What write_store uses of a trainer; `events` are the calls of its engines in their order."""

    def __init__(self, config, engine, events: list[str]):
        self.config, self.events, self._engine = config, events, engine
        self.replicas = [Replica(events) for _ in range(REPLICAS)]
        # verl's own, whose sleep_replicas decides how they are put to sleep.
        self.checkpoint_manager = CheckpointEngineManager(CheckpointEngineConfig(), None, self.replicas)

    def get_llm_client(self) -> SimpleNamespace:
        return SimpleNamespace(generate=self._generate)

    async def _generate(self, *arguments, **keywords):
        assert all(replica.awake for replica in self.replicas)
        self.events.append(SAMPLES)
        return await self._engine.generate(*arguments, **keywords)

    def reference_of(self, rows, *, top_k):
        assert not any(replica.awake for replica in self.replicas)
        self.events.append(REFERENCE)
        found = {"ref_log_probs": [-torch.ones(len(row.response)) for row in rows]}
        if top_k:
            shapes = {"top_ids": (top_k,), "top_log_probs": (top_k,), "rest_log_prob": ()}
            found |= {name: [torch.zeros(len(row.response), *s) for row in rows] for name, s in shapes.items()}
        return found


@pytest.fixture
def trainer(tmp_path, model_folder, make_row, write_parquet, scorer_server, seeded_engine, monkeypatch):
    """Makes the trainer of a run that writes pef.pt for 30 prompts, with some settings changed."""
    overrides = {
        "device": "cpu",
        "actor_rollout_ref.actor.generate_sft": True,
        "actor_rollout_ref.model.path": model_folder,
        "data.sft_files": write_parquet(tmp_path / "correct.parquet", *(make_row(i) for i in range(30))),
        "data.sft_wrong_files": write_parquet(tmp_path / "wrong.parquet", make_row(30)),
        "data.sft_pt": tmp_path / "pef.pt",
        "data.max_prompt_length": 16,
        "data.max_response_length": 3,
        "reward.custom_reward_function.reward_kwargs.scorer": scorer_server,
    }

    monkeypatch.setattr(build, "reference_of", RecordingTrainer.reference_of)

    def make(**changes) -> RecordingTrainer:
        settings = overrides | {f"data.{name}": value for name, value in changes.items()}
        with hydra.initialize_config_dir(str(CONFIG_DIR), version_base=None):
            config = hydra.compose("dph_trainer", [f"{key}={value}" for key, value in settings.items()])
        return RecordingTrainer(config, seeded_engine(), [])

    return make


def test_the_rollout_servers_sleep_while_the_reference_is_computed(trainer, tmp_path):
    """vLLM's weights and cache would otherwise lie beside the forward pass: 72 of 80 GB with an 8B model on 8 GPUs."""
    first = trainer()
    build.write_store(first)
    # One part, and the rows that are computed again.
    assert first.events == [SAMPLES] * 30 + [SLEEPS] * REPLICAS + [REFERENCE] * 2
    store = Store.load(str(tmp_path / "pef.pt"))
    assert 0 < len(store) < 30 and store.top_k == 0

    again = trainer(sft_top_k=TOP_K)  # the store lacks only these
    build.write_store(again)
    assert again.events == [SLEEPS] * REPLICAS + [REFERENCE] * 2
    assert Store.load(str(tmp_path / "pef.pt")).top_k == TOP_K


def test_they_sleep_at_once_when_the_samples_are_there(trainer, tmp_path, monkeypatch):
    def dies(*arguments, **keywords):
        raise KeyboardInterrupt

    killed = trainer()
    with monkeypatch.context() as patch:
        patch.setattr(build, "fill_in_parts", dies)
        with pytest.raises(KeyboardInterrupt):
            build.write_store(killed)
    assert killed.events == [SAMPLES] * 30 + [SLEEPS] * REPLICAS and not (tmp_path / "pef.pt").exists()
    resumed = trainer()
    build.write_store(resumed)
    assert resumed.events == [SLEEPS] * REPLICAS + [REFERENCE] * 2


def test_a_store_that_is_there_needs_no_engine(trainer, tmp_path, caplog):
    build.write_store(trainer())
    before, ids = (tmp_path / "pef.pt").read_bytes(), pq.read_table(tmp_path / "correct.parquet")["id"].to_pylist()
    idle = trainer()
    with caplog.at_level(logging.INFO):
        build.write_store(idle)
    assert idle.events == [] and f"already holds every prompt of {tmp_path / 'correct.parquet'}" in caplog.text
    assert (tmp_path / "pef.pt").read_bytes() == before
    assert pq.read_table(tmp_path / "correct.parquet")["id"].to_pylist() == ids
