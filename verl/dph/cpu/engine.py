"""verl's FSDP2 engine, registered for the CPU."""

import torch
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead


class CPUFSDPEngineWithLMHead(FSDPEngineWithLMHead):
    """The FSDP2 engine for language models on gloo."""

    def _build_fsdp_module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Shard `module` without CPU offload.

        verl offloads every forward-only (reference) model into pinned memory, and pinning raises without an
        accelerator. Here the parameters are in main memory from the start.

        Raises:
            ValueError: when the settings ask for FSDP1, whose broadcast of the initial weights torch refuses on a CPU,
                or for offloading.
        """
        if self.engine_config.strategy != "fsdp2":
            raise ValueError(
                f"strategy={self.engine_config.strategy} does not run with VERL_PLATFORM=cpu: set "
                "actor_rollout_ref.actor.strategy=fsdp2"
            )
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


def log_probs_from_logits(logits: torch.Tensor, labels: torch.Tensor, inplace_backward: bool = True) -> torch.Tensor:
    """Log-probabilities of `labels`, (tokens,), from logits (tokens, vocabulary) of any float type.

    verl's own takes one logsumexp a token in a Python loop, to save GPU memory: on the demo (6,000 tokens a mini-batch)
    half of the update's time. inplace_backward is a hint for GPUs.
    """
    flat = logits.reshape(-1, logits.shape[-1])
    return -torch.nn.functional.cross_entropy(flat, labels.reshape(-1), reduction="none").view(labels.shape)


def register_engine() -> None:
    """Make the engine the one that verl's registry gives for language models on the device "cpu".

    It is registered for "fsdp" too, so that this setting gets a sentence that says what to do.
    """
    transformer_impl.logprobs_from_logits = log_probs_from_logits
    backends = EngineRegistry._engines["language_model"]
    if "cpu" not in backends["fsdp2"]:
        EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu")(
            CPUFSDPEngineWithLMHead
        )
