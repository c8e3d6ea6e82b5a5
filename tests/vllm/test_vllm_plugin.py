"""vLLM's CPU layers take new weights with our plugin, and do not without it."""

from importlib.metadata import entry_points

import pytest
import torch
from torch.nn.functional import linear
from vllm.model_executor.layers import utils
from vllm.platforms import current_platform

from verl.dph.cpu.vllm_plugin import register

# vLLM has kernels of its own for sizes and types like these.
SHAPES = [(64, 32, torch.float32), (8, 32, torch.bfloat16), (48, 96, torch.float32)]


@pytest.fixture(autouse=True)
def unpatched(monkeypatch):
    """vLLM's module as it was, again after the test."""
    monkeypatch.setattr(utils, "dispatch_cpu_unquantized_gemm", utils.dispatch_cpu_unquantized_gemm)


def make_layer(rows: int, columns: int, dtype: torch.dtype) -> torch.nn.Module:
    layer = torch.nn.Module()
    layer.weight = torch.nn.Parameter(torch.randn(rows, columns, dtype=dtype), requires_grad=False)
    return layer


def test_vllm_finds_the_plugin_and_its_cpu_platform():
    [plugin] = [point for point in entry_points(group="vllm.general_plugins") if point.name == "dph"]
    assert plugin.load() is register
    assert current_platform.is_cpu()


@pytest.mark.parametrize(("rows", "columns", "dtype"), SHAPES)
def test_a_layer_computes_with_weights_that_were_loaded_later(monkeypatch, rows, columns, dtype):
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    register()
    layer = make_layer(rows, columns, dtype)
    weight, inputs = layer.weight, torch.randn(5, columns, dtype=dtype)
    for _ in range(2):
        weight.data.copy_(torch.randn(rows, columns))
        utils.dispatch_cpu_unquantized_gemm(layer, remove_weight=True)
        assert layer.weight is weight
        torch.testing.assert_close(layer.cpu_linear(inputs, weight, None), linear(inputs, weight), atol=0.1, rtol=0.02)
