"""What a plan says of runs: the figures estimated for the paper's, what fits, and which settings are chosen."""

from dataclasses import replace

import pytest

from rl.common.errors import UserError
from rl.configuration.run import run_of
from rl.planning.choice import advice, fitting_engine, planned
from rl.planning.gpus import GPUS, gpu_listed, gpu_named
from rl.planning.model_shape import model_shape
from rl.planning.phases import update_peaks
from rl.planning.plan import make_plan
from rl.planning.run_settings import FLASH, OVERRIDES, SDPA, Engine, run_settings

LLAMA = model_shape("Llama-3.1-8B")
A800, H100 = GPUS["a800"], GPUS["h100"]


def gb(number: float) -> int:
    return round(number / 1e9)


def phases(plan) -> dict:
    return {phase.name: phase for phase in plan.phases}


def test_llama_8b_on_8_gpus(llama_sql):
    """Worked out by hand from verl's code before any of this was written."""
    plan = make_plan(llama_sql, LLAMA, A800)
    found = phases(plan)
    assert {name: gb(phase.peak) for name, phase in found.items()} == {
        "update": 31,
        "rollout": 72,
        "old log-probs": 19,
        "weight transfer": 32,
        "loading": 6,
    }
    parts = {name: round(number / 1e9, 1) for name, number in found["update"].parts.items()}
    assert parts == {
        "parameters": 4.0,
        "gradients": 4.0,
        "Adam's moments": 8.0,
        "layer inputs": 5.3,
        "logits": 5.2,
        "one pass over logits": 0.3,
        "FSDP in flight": 4.3,
    }
    assert 4e9 <= found["update"].beside <= 5e9 and not plan.problems()
    peaks = {name: (gb(low), gb(high)) for name, (low, high) in update_peaks(llama_sql, LLAMA).items()}
    assert peaks[FLASH] == (31, 31)
    low, high = peaks["sdpa and verl's own log-probs"]
    assert low == 41 and 41 < high <= 45
    small = replace(llama_sql, engine=replace(llama_sql.engine, max_tokens=4096))
    assert all(low <= high for low, high in update_peaks(small, model_shape("Qwen2.5-7B")).values())
    # 43 with the entropy of the old log-probs not fused.
    log_probs, copies = found["old log-probs"], 8 * 20_096 * 128_256
    assert log_probs.peak + copies < 43e9 < log_probs.total + copies


@pytest.mark.parametrize(
    ("gpu", "update", "log_probs", "minutes"), [(H100, 150, 34, 3.6), (A800, 435, 97, 10)], ids=["h100", "a800"]
)
def test_times_of_llama_8b(llama_sql, gpu, update, log_probs, minutes):
    plan = make_plan(llama_sql, LLAMA, gpu)
    assert plan.seconds["update"] == pytest.approx(update, rel=0.02)
    assert plan.seconds["old log-probs"] == pytest.approx(log_probs, rel=0.01)
    assert plan.step_seconds / 60 == pytest.approx(minutes, rel=0.03)
    # Attention over the whole square: 6 to 9 s more for each of 47 micro-batches.
    masked = make_plan(replace(llama_sql, attention=SDPA), LLAMA, gpu).seconds["update"] - plan.seconds["update"]
    assert 6 <= masked / 47 * gpu.tflops / 400 <= 9


def test_8b_on_4_gpus_needs_offloading_or_a_smaller_share(llama_sql):
    """Parameters 8, Adam 16, vLLM 56: nothing is left of 80 GB."""
    run = replace(llama_sql, gpus_per_node=4, shard_gpus=4)
    plan = make_plan(run, LLAMA, A800)
    rollout = phases(plan)["rollout"].parts
    assert gb(rollout["parameters"] + rollout["Adam's moments"] + rollout["vLLM's share"]) == 80
    assert plan.problems() == ["the second rollout needs 84 of 80 GB"]
    assert advice(run, LLAMA, A800) == "set OFFLOAD=True or GPU_MEMORY_UTILIZATION=0.6"
    assert planned(run, LLAMA, A800, list(OVERRIDES)).run.engine == replace(run.engine, utilization=0.6)
    # What the user sets stays.
    assert planned(run, LLAMA, A800, ["OFFLOAD"]).run.engine == replace(run.engine, offload="True")
    assert planned(run, LLAMA, A800, []).run.engine == run.engine


@pytest.mark.parametrize("gpus", [1, 2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("model", ["Llama-3.2-1B", "Qwen2.5-3B", "Llama-3.1-8B", "Qwen3-14B", "OmniSQL-32B"])
def test_every_size_on_every_number_of_gpus(llama_sql, model, gpus):
    """A run that fits by all formulas, or the least number of GPUs that has one."""
    shape, run = model_shape(model), llama_sql.on_gpus(gpus)
    assert (run.gpus, run.shard_gpus) == (gpus, gpus)
    plan = planned(run, shape, A800, list(OVERRIDES))
    if (model, gpus) == ("OmniSQL-32B", 1):
        # verl loads 131 GB of float32 onto the one GPU.
        assert plan.problems() and advice(run, shape, A800) == "use 2 GPUs or more"
        return
    assert not plan.problems()
    assert all(phase.total <= 80e9 for phase in plan.phases)
    assert gpus % plan.run.engine.tensor_parallel == 0 == shape.heads % plan.run.engine.tensor_parallel


def test_the_defaults_are_kept_where_they_fit(llama_sql):
    """Also the ones that are dearer than needed: OmniSQL's on the paper's 32 GPUs."""
    omnisql = replace(llama_sql.on_gpus(32), engine=Engine("True", 0.7, 4, 20_096))
    shape = model_shape("OmniSQL-32B")
    assert fitting_engine(omnisql, shape, A800, list(OVERRIDES)) == omnisql.engine
    assert fitting_engine(omnisql.on_gpus(8), shape, A800, list(OVERRIDES)).offload == "policy"


def test_sdpa_gets_small_micro_batches(llama_sql):
    """No smaller than the longest row; only if MAX_TOKENS_PER_GPU is open."""
    engine = Engine("False", 0.7, 1, 16_384)
    math = replace(llama_sql, max_prompt=2048, max_response=2048, engine=engine, attention=SDPA)
    assert fitting_engine(math, LLAMA, A800, list(OVERRIDES)).max_tokens == 4096
    assert fitting_engine(math, LLAMA, A800, ["OFFLOAD"]).max_tokens == 16_384
    assert fitting_engine(replace(math, attention=FLASH), LLAMA, A800, list(OVERRIDES)).max_tokens == 16_384
    assert fitting_engine(replace(llama_sql, attention=SDPA), LLAMA, A800, list(OVERRIDES)).max_tokens == 20_096
    notes = make_plan(math, LLAMA, A800).notes
    assert any(note.startswith("sdpa attends over the whole square") for note in notes)


@pytest.mark.parametrize(
    ("attention", "response", "tokens"),
    [("flash_attention_2", 4096, 20_096), ("kernels-community/flash-attn2", 96, 16_384), ("sdpa", 96, 16_096)],
)
def test_micro_batches_that_the_settings_leave_open(values, attention, response, tokens):
    values |= {
        "data.max_response_length": response,
        "actor_rollout_ref.model.override_config.attn_implementation": attention,
    }
    run = run_settings("verl.dph.main", values)
    assert run.engine.max_tokens == tokens and run.attention == (SDPA if attention == "sdpa" else FLASH)


def test_offloading(llama_sql):
    """True empties the rollout, policy the update too, which costs time in every micro-batch."""
    plain, while_idle, always = (
        make_plan(replace(llama_sql, engine=replace(llama_sql.engine, offload=offload)), LLAMA, A800)
        for offload in ("False", "True", "policy")
    )
    assert phases(while_idle)["update"] == phases(plain)["update"]
    assert gb(phases(while_idle)["rollout"].peak) == gb(phases(always)["rollout"].peak) == 60
    assert gb(phases(plain)["update"].peak - phases(always)["update"].peak) == 16
    assert plain.seconds.keys() | {"offload"} == while_idle.seconds.keys() == always.seconds.keys()
    assert 0 < while_idle.seconds["offload"] < always.seconds["offload"]
    assert gb(while_idle.host["offloaded"]) == 96 and gb(always.host["offloaded"]) == 128


def test_the_share_must_hold_the_weights(llama_sql):
    run = replace(llama_sql, engine=Engine("False", 0.2, 1, 20_096))
    [problem] = make_plan(run, LLAMA, A800).problems()
    assert problem == "vLLM needs 21 GB and its share is 16 of 80 GB"
    assert "GPU_MEMORY_UTILIZATION=0.7 or TENSOR_PARALLEL=4" in advice(run, LLAMA, A800)


def test_replicas_of_whole_gpus_and_heads(llama_sql):
    run = replace(llama_sql.on_gpus(2), engine=Engine("policy", 0.7, 4, 20_096))
    assert make_plan(run, LLAMA, A800).problems() == ["TENSOR_PARALLEL=4 does not divide the 2 GPUs"]
    assert advice(run, LLAMA, A800) == "set TENSOR_PARALLEL=1"
    assert fitting_engine(run, LLAMA, A800, list(OVERRIDES)).tensor_parallel == 1
    [problem] = make_plan(
        replace(llama_sql, engine=Engine("False", 0.7, 8, 20_096)), model_shape("Qwen2.5-7B"), A800
    ).problems()
    assert problem == "TENSOR_PARALLEL=8 does not divide the 28 attention heads"


def test_other_programs(monkeypatch):
    """Pre-sampling has a rollout alone, the store no optimizer and a sleeping vLLM."""
    monkeypatch.setenv("DEVICE", "cuda")
    monkeypatch.setenv("GPUS_PER_NODE", "2")
    sampling, store = (
        run_of(f"scripts/llama/{name}.sh", more)
        for name, more in (("offline_sampling", []), ("get_correct_data_tensor", ["data.sft_top_k=64"]))
    )
    plan = make_plan(run_settings(sampling.program, sampling.values), LLAMA, A800)
    assert {name: gb(phase.total) for name, phase in phases(plan).items()} == {"rollout": 56} and not plan.seconds
    plan = make_plan(run_settings(store.program, store.values), LLAMA, A800)
    assert list(phases(plan)) == ["reference log-probs", "rollout", "loading"] and not plan.problems()
    assert "Adam's moments" not in phases(plan)["rollout"].parts
    assert plan.notes == ("Top-64 distributions: 386 bytes a response token, at most 1.6 MB a row.",)


def test_a_reference_model_costs_a_forward_pass(llama_sql):
    plan = make_plan(replace(llama_sql, reference=True), LLAMA, H100)
    assert plan.seconds["reference log-probs"] == plan.seconds["old log-probs"]
    assert gb(plan.host["reference model"]) == 32


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"actor_rollout_ref.model.lora_rank": 32}, "LoRA .actor_rollout_ref.model.lora_rank=32. is not modelled"),
        ({"algorithm.adv_estimator": "gae"}, "a critic"),
        ({"trainer.v1.trainer_mode": "separate_async"}, "a rollout on GPUs of its own"),
        ({"actor_rollout_ref.actor.fsdp_config.param_offload": True}, "offloading only the parameters"),
        ({"trainer.nnodes": "two"}, "trainer.nnodes is 'two', no whole number"),
        ({"trainer.n_gpus_per_node": 0}, "trainer.n_gpus_per_node is 0: it must be at least 1"),
        ({"actor_rollout_ref.rollout.gpu_memory_utilization": "much"}, "is 'much', no number"),
    ],
)
def test_runs_that_are_not_modelled(values, changed, words):
    with pytest.raises(UserError, match=words):
        run_settings("verl.dph.main", values | changed)


def test_gpu_types(llama_sql):
    assert gpu_named("H100") == H100 and gpu_named("a100-40gb").memory == 40
    for name in ("v100", "a100-x", "a100-0"):
        with pytest.raises(UserError, match=f"'{name}' is no GPU type of the plan: give one of a100, "):
            gpu_named(name)
    assert gpu_listed("NVIDIA A800-SXM4-80GB, 81251\nNVIDIA A800-SXM4-80GB, 81251\n") == A800
    assert gpu_listed("NVIDIA H200, 143771\n").memory == 141
    assert gpu_listed("NVIDIA A100-PCIE-40GB, 40536\n").memory == 40
    other = gpu_listed("NVIDIA GeForce RTX 4090, 24564\n")
    assert (other.name, other.memory, other.tflops) == ("NVIDIA GeForce RTX 4090", 24, None)
    assert make_plan(llama_sql, LLAMA, other).step_seconds is None
    assert gpu_listed("") is None
