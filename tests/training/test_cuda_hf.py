"""`device=cuda_hf` passes every check before Ray. Training with it is the check on one GPU (benchmarks/gpu)."""

from verl.workers.rollout.base import get_rollout_class
from verl.workers.rollout.replica import get_rollout_replica_class

from rl.configuration.compose import compose
from tests.tiny_run import prepare
from verl.dph.pef.store import Store


def test_a_run_on_a_gpu_without_vllm_can_start(run, monkeypatch):
    monkeypatch.delenv("VERL_PLATFORM")
    device = {"device": "cuda_hf", "trainer.n_gpus_per_node": 1, "data.sft_pt": run.store}
    Store(run.store_origin | {"engine_dtype": "bfloat16"}, run.store_rows).save(run.store)
    settings = run.overrides | device | {"trainer.default_local_dir": run.folder}
    config = compose("dph_trainer", [f"{name}={value}" for name, value in settings.items()])
    prepare(config)
    rollout = config.actor_rollout_ref.rollout
    assert (config.trainer.device, rollout.name, rollout.dtype) == ("cuda", "hf", "bfloat16")
    assert config.actor_rollout_ref.model.override_config.attn_implementation == "sdpa"
    assert get_rollout_replica_class(rollout.name).__module__ == "verl.dph.hf_rollout.replica"
    assert get_rollout_class(rollout.name, rollout.mode).__module__ == "verl.dph.hf_rollout.adapter"
