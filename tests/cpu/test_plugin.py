"""What is registered with verl in a fresh process, with VERL_PLATFORM=cpu and without."""

import importlib.util
import logging
import os
import sys
import textwrap

import pytest

import verl.dph.cpu
from tests.programs import output_of

WITHOUT = """
    import verl
    from verl.dph import plugin
    from verl.plugin.platform import PlatformRegistry
    import verl.utils.distributed

    assert plugin.registered
    assert "verl.workers" not in sys.modules, "registering imports nothing heavy"
    import verl.utils.model
    import verl.utils.torch_functional
    from verl.workers.engine.fsdp import transformer_impl

    # verl's own, in a program that is not ours
    assert transformer_impl.logprobs_from_logits is verl.utils.torch_functional.logprobs_from_logits
    for function in (transformer_impl.logprobs_from_logits, verl.utils.model.load_valuehead_model):
        assert function.__module__.startswith("verl.utils.") and not hasattr(function, "__wrapped__")
    from verl.workers.rollout.base import get_rollout_class
    from verl.workers.rollout.replica import get_rollout_replica_class

    assert not any(name.startswith("verl.dph.cpu.") for name in sys.modules), "none of its modules is even imported"
    assert get_rollout_replica_class("hf").__name__ == "HFReplica"
    assert get_rollout_class("hf").__name__ == "HFServerAdapter"
    assert PlatformRegistry.get("cpu") is None
    from verl.trainer.ppo import core_algos

    assert {"pkpo", "w_reinforce"} <= core_algos.ADV_ESTIMATOR_REGISTRY.keys()
    assert core_algos.ADV_ESTIMATOR_REGISTRY["grpo_passk"] is core_algos.compute_grpo_passk_outcome_advantage
    assert not hasattr(verl.utils.distributed.initialize_global_process_group_ray, "__wrapped__")
    from verl.single_controller.ray import base

    assert not hasattr(base.RayWorkerGroup.__init__, "__wrapped__")
"""

WITH = """
    import verl
    from verl.dph import plugin

    assert plugin.registered
    assert "verl.workers" not in sys.modules, "registering imports nothing heavy"

    import torch
    from verl.single_controller.ray import base
    from verl.utils import fsdp_utils
    from verl.workers.config import FSDPEngineConfig, HFModelConfig
    from verl.workers.engine.base import EngineRegistry
    from verl.workers.rollout import router
    import verl.utils.distributed

    for function in (fsdp_utils.fsdp2_sharded_save_to_cpu, router.get_router_handle):
        assert not hasattr(function, "__wrapped__"), "verl's own, until a program of ours replaces it"
    first_of_connections = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
    for _ in range(20):
        # The kernel had given the port to a connection once, and rank 0 could not listen.
        start, end = base.RayWorkerGroup(worker_names=[])._ray_master_port_range
        assert 10_000 <= start < end <= first_of_connections
    given = base.RayWorkerGroup(worker_names=[], master_port_range=[5, 6])
    assert given._ray_master_port_range == [5, 6]
    verl.utils.distributed.initialize_global_process_group_ray()
    model_config = HFModelConfig(
        path=sys.argv[1], use_remove_padding=False, override_config={"attn_implementation": "sdpa"}
    )
    engine = EngineRegistry.new(
        model_type="language_model",
        backend="fsdp2",
        model_config=model_config,
        engine_config=FSDPEngineConfig(
            forward_only=True,
            strategy="fsdp2",
            model_dtype="fp32",
            use_torch_compile=False,
            use_remove_padding=False,
        ),
        optimizer_config=None,
        checkpoint_config=None,
    )
    engine._build_model_optimizer()
    logits = engine.module(input_ids=torch.tensor([[4, 5, 6]])).logits  # of a reference model
    assert logits.shape == (1, 3, 32) and bool(logits.isfinite().all())
"""


@pytest.mark.parametrize(("platform", "program"), [(None, WITHOUT), ("cpu", WITH)], ids=["no platform set", "cpu"])
def test_registration(platform, program, word_llama, tmp_path):
    word_llama(tmp_path, ["<pad>", "<eos>", "<unk>", *(f"w{i}" for i in range(29))], template="")
    environment = {name: value for name, value in os.environ.items() if name != "VERL_PLATFORM"}
    environment |= {"OMP_NUM_THREADS": "1", "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    environment |= {"MASTER_PORT": "0", "GLOO_SOCKET_IFNAME": "lo"} | ({"VERL_PLATFORM": platform} if platform else {})
    command = [sys.executable, "-c", "import sys\n" + textwrap.dedent(program), str(tmp_path)]
    output_of(command, environment=environment, timeout=120)


def test_a_failing_registration_is_logged_and_raised(monkeypatch, caplog):
    def fail():
        raise RuntimeError("no such platform")

    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    monkeypatch.setattr(verl.dph.cpu, "register", fail)
    spec = importlib.util.find_spec("verl.dph.plugin")
    plugin = importlib.util.module_from_spec(spec)
    with caplog.at_level(logging.ERROR), pytest.raises(RuntimeError, match="no such platform"):
        spec.loader.exec_module(plugin)
    assert not plugin.registered
    assert "verl.dph could not register itself with verl" in caplog.text
