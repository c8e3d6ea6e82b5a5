"""The workers of our trainer, which replace some functions of verl in their processes."""

import verl.utils.model
from omegaconf import DictConfig
from verl.single_controller.base.decorator import Dispatch, register
from verl.utils import torch_functional
from verl.utils.device import get_device_name
from verl.workers.engine.fsdp import transformer_impl
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from verl.dph.config.attention import use_configured_attention
from verl.dph.cpu.in_process import join_queue
from verl.dph.objective import log_probs


def replace_functions() -> None:
    """Replace functions of verl in this process.

    FSDP engines then compute log-probs in one pass over the logits, and critics use the configured attention. On a CPU
    entropies are computed in chunks.
    """
    if transformer_impl.logprobs_from_logits is log_probs.log_probs_of:
        return
    transformer_impl.logprobs_from_logits = log_probs.log_probs_of
    use_configured_attention(verl.utils.model)
    if get_device_name() == "cpu":
        torch_functional.entropy_from_logits = log_probs.entropy_of


class ReplacedFunctions:
    """Mixin of a worker, before verl's class in its bases."""

    def __init__(self, *args, **kwargs):
        replace_functions()
        super().__init__(*args, **kwargs)


class DPHWorker(ReplacedFunctions, ActorRolloutRefWorker):
    """The actor with its rollouts, and a reference model."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def join_queue(self, settings: DictConfig) -> None:
        """Connect to the TransferQueue of the driver's process (verl/dph/cpu/in_process.py)."""
        join_queue(settings)


class DPHCriticWorker(ReplacedFunctions, TrainingWorker):
    """A critic."""
