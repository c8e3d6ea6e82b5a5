"""The `vllm.general_plugins` entry point: makes weight updates work with vLLM on a CPU.

vLLM packs the weight of a loaded linear layer for its CPU kernels and then drops the plain weight
(model_executor/layers/linear.py, UnquantizedLinearMethod). The trainer's weights then have no target, and the worker
dies. Here the plain weight stays: verl loads into it and has it packed again after every update
(verl/workers/rollout/vllm_rollout/utils.py, update_weights_from_ipc). This doubles the memory of the weights.

vLLM calls `register` in every one of its processes, before it builds a model.
"""

import functools

import torch

from verl.dph.cpu import is_chosen


def register() -> None:
    """Keep plain weights, with VERL_PLATFORM=cpu and on vLLM's CPU platform only."""
    if not is_chosen():
        return
    from vllm.model_executor.layers import utils
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    pack = utils.dispatch_cpu_unquantized_gemm

    @functools.wraps(pack)
    def pack_and_keep(layer: torch.nn.Module, remove_weight: bool) -> None:
        pack(layer, remove_weight=False)

    # Both callers import the function when they call it.
    utils.dispatch_cpu_unquantized_gemm = pack_and_keep
