"""verl's FSDP2 engines on a CPU."""

from types import ModuleType

import torch
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngine, FSDPEngineWithLMHead, FSDPEngineWithValueHead


class CPUFSDPEngine(FSDPEngine):
    """Mixin of an engine, before verl's in its bases: FSDP2 on gloo."""

    def _build_fsdp_module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Shard `module` without CPU offload.

        verl offloads every forward-only (reference) model into pinned memory, and pinning raises without an
        accelerator. Here the parameters are in main memory from the start.
        """
        forward_only = self.engine_config.forward_only
        self.engine_config.forward_only = False
        try:
            return super()._build_fsdp_module(module)
        finally:
            self.engine_config.forward_only = forward_only


class CPUFSDPEngineWithLMHead(CPUFSDPEngine, FSDPEngineWithLMHead):
    """For language models: actor and reference."""


class CPUFSDPEngineWithValueHead(CPUFSDPEngine, FSDPEngineWithValueHead):
    """For value models: the critic."""


def register_engines(_: ModuleType) -> None:
    """Register the engines with verl for the CPU, once its own are imported."""
    for model_type, engine in (
        ("language_model", CPUFSDPEngineWithLMHead),
        ("value_model", CPUFSDPEngineWithValueHead),
    ):
        EngineRegistry.register(model_type=model_type, backend=["fsdp2"], device="cpu")(engine)
