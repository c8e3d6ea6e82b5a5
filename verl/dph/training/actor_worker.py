"""The workers of our trainer.

The actor's worker adds a pass to verl's: the reference's top-k distributions. Each worker replaces some functions of
verl in its own process.
"""

import torch
import verl.utils.model
from omegaconf import DictConfig
from tensordict import TensorDict
from verl.single_controller.base.decorator import Dispatch, make_nd_compute_dataproto_dispatch_fn, register
from verl.utils import tensordict_utils as tu
from verl.utils import torch_functional
from verl.utils.device import get_device_name
from verl.workers.engine.fsdp import transformer_impl
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from verl.dph.config.attention import use_configured_attention
from verl.dph.cpu.in_process import join_queue
from verl.dph.objective import topk_logprobs
from verl.dph.pef.batch_fields import PEF_REST_LOG_PROBS, PEF_TOP_IDS, PEF_TOP_LOG_PROBS


class TopKRecorder:
    """A loss function that records the k likeliest tokens at every response position.

    Rows carry their number in the field `ROW`, because the engine orders them into micro-batches.
    """

    ROW = "dph_row"

    def __init__(self, k: int):
        self.k = k
        self.rows: dict[int, tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = {}

    def __call__(self, data: TensorDict, model_output=None, dp_group=None, student_logits=None):
        if student_logits is None:
            return torch.zeros((), device=data["input_ids"].device), {}
        logits = student_logits.squeeze(0)
        ends = data["input_ids"].offsets()[1:].tolist()
        lengths = data["responses"].offsets().diff().tolist()
        for row, end, length in zip(data[self.ROW].tolist(), ends, lengths, strict=True):
            found = topk_logprobs.largest(logits[end - length - 1 : end - 1], self.k)
            self.rows[row] = tuple(part.cpu() for part in found)
        return {}

    def columns(self) -> dict[str, torch.Tensor]:
        """Jagged columns of all rows in their order."""
        parts = zip(*(self.rows[row] for row in sorted(self.rows)), strict=True)
        names = (PEF_TOP_IDS, PEF_TOP_LOG_PROBS, PEF_REST_LOG_PROBS)
        return {
            name: torch.nested.as_nested_tensor(list(part), layout=torch.jagged)
            for name, part in zip(names, parts, strict=True)
        }


def replace_functions() -> None:
    """Replace functions of verl in this process.

    FSDP engines then compute log-probs in one pass over the logits, and critics use the configured attention. On a CPU
    entropies are computed in chunks.
    """
    if transformer_impl.logprobs_from_logits is topk_logprobs.log_probs_of:
        return
    transformer_impl.logprobs_from_logits = topk_logprobs.log_probs_of
    use_configured_attention(verl.utils.model)
    if get_device_name() == "cpu":
        torch_functional.entropy_from_logits = topk_logprobs.entropy_of


class ReplacedFunctions:
    """Mixin of a worker, before verl's class in its bases."""

    def __init__(self, *args, **kwargs):
        replace_functions()
        super().__init__(*args, **kwargs)


class DPHPasses(ReplacedFunctions):
    """Mixin of a worker, before verl's ActorRolloutRefWorker in its bases."""

    actor: TrainingWorker

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def join_queue(self, settings: DictConfig) -> None:
        """Connect to the TransferQueue of the driver's process (verl/dph/cpu/in_process.py)."""
        join_queue(settings)

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="actor"))
    def compute_top_k(self, data: TensorDict) -> TensorDict:
        """verl's compute_log_prob, and the `top_k` likeliest tokens at each position (a setting of the batch).

        Returns:
            jagged rows: "log_probs" (prompt + response,), and for the response positions the fields PEF_TOP_IDS,
            PEF_TOP_LOG_PROBS and PEF_REST_LOG_PROBS of pef/batch_fields.py.
        """
        recorder = TopKRecorder(tu.pop(data, "top_k"))
        data[TopKRecorder.ROW] = torch.arange(len(data))
        tu.assign_non_tensor(data, compute_loss=True, distillation_use_topk=True)
        worker: TrainingWorker = self.actor
        loss_fn, worker.loss_fn = worker.loss_fn, recorder
        try:
            output = worker.infer_batch(data)
        finally:
            worker.loss_fn = loss_fn
        return TensorDict({"log_probs": output["log_probs"]} | recorder.columns(), batch_size=len(data)).cpu()


class DPHWorker(DPHPasses, ActorRolloutRefWorker):
    """The actor, with its rollouts on the same devices."""


class DPHReferenceWorker(ReplacedFunctions, ActorRolloutRefWorker):
    """A separate reference model."""


class DPHCriticWorker(ReplacedFunctions, TrainingWorker):
    """A critic."""
