"""The workers of our trainers.

The actor's worker adds two passes to verl's: the reference's top-k distributions, and gradient norms by component. Each
worker replaces some functions of verl in its own process.
"""

import torch
import verl.utils.model
from omegaconf import DictConfig
from tensordict import TensorDict
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.tensor import DTensor
from verl.experimental.separation.engine_workers import DetachActorWorker
from verl.single_controller.base.decorator import Dispatch, make_nd_compute_dataproto_dispatch_fn, register
from verl.utils import tensordict_utils as tu
from verl.utils import torch_functional
from verl.utils.device import get_device_name
from verl.utils.fsdp_utils import fsdp2_clip_grad_norm_
from verl.workers.engine.fsdp import transformer_impl
from verl.workers.engine.fsdp.transformer_impl import FSDPEngine
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from verl.dph.config.attention import use_configured_attention
from verl.dph.cpu.engine import save_copies
from verl.dph.cpu.in_process import join_queue
from verl.dph.divergence import topk_logprobs
from verl.dph.pef.batch_fields import PEF_REST_LOG_PROBS, PEF_TOP_IDS, PEF_TOP_LOG_PROBS
from verl.dph.training.rehearsal_loss import COMPONENT, POLICY, REHEARSAL


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
    entropies are computed in chunks, and saved weights are copies.
    """
    if transformer_impl.logprobs_from_logits is topk_logprobs.log_probs_of:
        return
    transformer_impl.logprobs_from_logits = topk_logprobs.log_probs_of
    use_configured_attention(verl.utils.model)
    if get_device_name() == "cpu":
        torch_functional.entropy_from_logits = topk_logprobs.entropy_of
        save_copies()


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

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="actor"))
    def component_gradient_norms(self, data: TensorDict) -> TensorDict:
        """Gradient norms of the policy loss alone and of the rehearsal alone on one mini-batch.

        Args:
            data: this rank's rows of the mini-batch. Weights and optimizer stay as they are.

        Returns:
            "metrics" {"dph/grad_norm_policy", "dph/grad_norm_rehearsal"}, before clipping.
        """
        worker: TrainingWorker = self.actor
        engine, config = worker.engine, worker.engine_config
        tu.assign_non_tensor(
            data,
            use_remove_padding=worker.model_config.get("use_remove_padding", False),
            use_dynamic_bsz=config.use_dynamic_bsz,
            max_token_len_per_gpu=config.max_token_len_per_gpu,
            micro_batch_size_per_gpu=config.micro_batch_size_per_gpu,
            use_fused_kernels=config.use_fused_kernels,
        )
        norms = {}
        with engine.train_mode():
            for component in (POLICY, REHEARSAL):
                engine.optimizer_zero_grad()
                tu.assign_non_tensor(data, **{COMPONENT: component})
                engine.forward_backward_batch(data, loss_function=worker.loss_fn)
                norms[f"dph/grad_norm_{component}"] = gradient_norm(engine)
            engine.optimizer_zero_grad()
        return tu.get_tensordict(tensor_dict={}, non_tensor_dict={"metrics": norms})


def gradient_norm(engine: FSDPEngine) -> float:
    """2-norm of the whole gradient of the engine's sharded module; nothing is clipped."""
    if isinstance(engine.module, FSDP):
        norm = engine.module.clip_grad_norm_(float("inf"))
    else:
        norm = fsdp2_clip_grad_norm_(engine.module.parameters(), max_norm=float("inf"))
    norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
    return norm.item() / (engine.scaler.get_scale() if engine.scaler else 1.0)  # float16 trains with scaled losses


class DPHWorker(DPHPasses, ActorRolloutRefWorker):
    """The actor of trainers with rollouts and updates on the same devices."""


class DPHDetachWorker(DPHPasses, DetachActorWorker):
    """The actor of trainers with rollouts on separate devices."""


class DPHReferenceWorker(ReplacedFunctions, ActorRolloutRefWorker):
    """A separate reference model."""


class DPHCriticWorker(ReplacedFunctions, TrainingWorker):
    """A critic."""
