"""verl's FSDP2 engines, registered for the CPU."""

import functools
from types import ModuleType

import torch
import verl.utils.fsdp_utils as fsdp_utils
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngine, FSDPEngineWithLMHead, FSDPEngineWithValueHead


class CPUFSDPEngine(FSDPEngine):
    """Mixin of an engine, before verl's in its bases: FSDP2 on gloo."""

    def _build_fsdp_module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Shard `module` without CPU offload.

        verl offloads every forward-only (reference) model into pinned memory, and pinning raises without an
        accelerator. Here the parameters are in main memory from the start.

        Raises:
            ValueError: when the settings ask for offloading. FSDP1, whose broadcast of the initial weights torch
                rejects on a CPU, is rejected before anything starts (checks/rules.py).
        """
        if self.engine_config.get("offload_policy", False):
            raise ValueError(
                "fsdp_config.offload_policy=True has no meaning with VERL_PLATFORM=cpu, where parameters are in main "
                "memory already: set it to False"
            )
        forward_only = self.engine_config.forward_only
        self.engine_config.forward_only = False
        try:
            return super()._build_fsdp_module(module)
        finally:
            self.engine_config.forward_only = forward_only


@EngineRegistry.register(model_type="language_model", backend=["fsdp2"], device="cpu")
class CPUFSDPEngineWithLMHead(CPUFSDPEngine, FSDPEngineWithLMHead):
    """For language models: actor and reference."""


@EngineRegistry.register(model_type="value_model", backend=["fsdp2"], device="cpu")
class CPUFSDPEngineWithValueHead(CPUFSDPEngine, FSDPEngineWithValueHead):
    """For value models: the critic."""


def save_copies(_: ModuleType) -> None:
    """Let verl's fsdp2_sharded_save_to_cpu copy.

    separate_async saves the weights of a step's beginning and computes old log-probs with them. verl saves by moving to
    main memory, where a CPU's parameters are already: what it saved would change with every update.
    """
    save = fsdp_utils.fsdp2_sharded_save_to_cpu

    @functools.wraps(save)
    def save_a_copy(model: torch.nn.Module):
        shards, spec = save(model)
        return {name: (shard.clone(), its_spec) for name, (shard, its_spec) in shards.items()}, spec

    fsdp_utils.fsdp2_sharded_save_to_cpu = save_a_copy
