"""The `vllm.general_plugins` entry point: makes weight updates work with vLLM on a CPU.

vLLM packs the weight of a loaded linear layer for its CPU kernels and then drops the plain weight
(model_executor/layers/linear.py, UnquantizedLinearMethod). The trainer's weights then have no target, and the worker
dies. Here the plain weight stays: verl loads into it and has it packed again after every update
(verl/workers/rollout/vllm_rollout/utils.py, update_weights_from_ipc). This doubles the memory of the weights.

vLLM calls `register` in every one of its processes, before it builds a model.
"""

import functools
import importlib.util
import os

import torch

from rl.common.errors import UserError
from verl.dph.cpu import is_chosen

NAME = "dph"  # of the entry point, in pyproject.toml


def check_environment() -> None:
    """Reject vLLM on a CPU if it cannot run, or would lose its worker in the first weight update."""
    if importlib.util.find_spec("vllm") is None:
        raise UserError(
            "actor_rollout_ref.rollout.name=vllm needs vLLM, which is not installed here: run make install-vllm and "
            "use its environment, .venv-vllm, or sample with hf, by device=cpu."
        )
    plugins = os.environ.get("VLLM_PLUGINS")
    if plugins is not None and NAME not in plugins.split(","):
        raise UserError(
            f"VLLM_PLUGINS={plugins!r} in the environment leaves out {NAME}, without which vLLM takes no new "
            f"weights on a CPU: unset it, or add {NAME}."
        )


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
