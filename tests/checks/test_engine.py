"""Which engine settings are chosen for a run, and what is advised to one that does not fit."""

from dataclasses import replace

import pytest

from rl.checks.engine import OVERRIDES, advice, changes, fitting
from rl.checks.estimate import FLASH, SDPA, Engine, problems
from rl.checks.gpus import GPU_TYPES
from rl.checks.model_shape import model_shape

LLAMA, A800 = model_shape("Llama-3.1-8B"), GPU_TYPES["a800"]
ALL = list(OVERRIDES)


def test_8b_on_4_gpus_needs_offloading_or_a_smaller_share(llama_sql):
    run = replace(llama_sql, gpus_per_node=4, shard_gpus=4)
    assert advice(run, LLAMA, A800) == "set OFFLOAD=True or GPU_MEMORY_UTILIZATION=0.6"
    assert changes(run, fitting(run, LLAMA, A800, ALL)) == ["GPU_MEMORY_UTILIZATION=0.6"]
    # What the user sets stays.
    assert changes(run, fitting(run, LLAMA, A800, ["OFFLOAD"])) == ["OFFLOAD=True"]
    assert fitting(run, LLAMA, A800, []) is None


@pytest.mark.parametrize("gpus", [1, 2, 8, 64])
@pytest.mark.parametrize("model", ["Llama-3.2-1B", "Llama-3.1-8B", "OmniSQL-32B"])
def test_every_size_on_every_number_of_gpus(llama_sql, model, gpus):
    """Settings that fit, or the least number of GPUs that has some."""
    shape, run = model_shape(model), llama_sql.on_gpus(gpus)
    assert (run.gpus, run.shard_gpus) == (gpus, gpus)
    fitted = fitting(run, shape, A800, ALL)
    if (model, gpus) == ("OmniSQL-32B", 1):
        # verl loads 131 GB of float32 onto the one GPU.
        assert fitted is None and advice(run, shape, A800) == "use 2 GPUs or more"
        return
    assert not problems(fitted, shape, A800)


def test_the_defaults_are_kept_where_they_fit(llama_sql):
    """Even defaults that cost more than needed: OmniSQL's on the paper's 32 GPUs."""
    omnisql = replace(llama_sql.on_gpus(32), engine=Engine("True", 0.7, 4, 20_096))
    shape = model_shape("OmniSQL-32B")
    assert fitting(omnisql, shape, A800, ALL) == omnisql
    assert fitting(omnisql.on_gpus(8), shape, A800, ALL).engine.offload == "policy"


def test_sdpa_gets_small_micro_batches(llama_sql):
    """No smaller than the longest row; only if MAX_TOKENS_PER_GPU is open."""
    math = replace(llama_sql, max_prompt=2048, max_response=2048, engine=Engine("False", 0.7, 1, 16_384))
    for attention, open_, tokens in ((SDPA, ALL, 4096), (SDPA, ["OFFLOAD"], 16_384), (FLASH, ALL, 16_384)):
        assert fitting(replace(math, attention=attention), LLAMA, A800, open_).engine.max_tokens == tokens
    assert fitting(replace(llama_sql, attention=SDPA), LLAMA, A800, ALL).engine.max_tokens == 20_096


@pytest.mark.parametrize(
    ("engine", "advised"),
    [
        (Engine("False", 0.2, 1, 20_096), "GPU_MEMORY_UTILIZATION=0.7 or TENSOR_PARALLEL=4"),
        (Engine("False", 0.7, 3, 20_096), "set TENSOR_PARALLEL=1"),
        (Engine("False", 0.7, 1, 8192), "set MAX_TOKENS_PER_GPU=20096"),
    ],
)
def test_advice(llama_sql, engine, advised):
    assert advised in advice(replace(llama_sql, engine=engine), LLAMA, A800)
