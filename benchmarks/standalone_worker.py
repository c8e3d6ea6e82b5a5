"""The actor's training worker in this process, without Ray or a trainer, for benchmarks and tests of the update.

The process is one rank, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set as for torchrun.
"""

import os
from functools import partial

import torch
from omegaconf import DictConfig
from tensordict import TensorDict
from transformers import LlamaConfig, LlamaForCausalLM
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import HFModelConfig, TrainingWorkerConfig
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.losses import ppo_loss

from rl.configuration.compose import compose
from verl.dph.objective.rehearsal import rehearsal_loss
from verl.dph.training.actor_worker import replace_functions
from verl.dph.training.config import terms


def be_the_only_rank() -> None:
    """Set the variables of torchrun for a single process, with a port of its own."""
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(20_000 + os.getpid() % 20_000))
    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}


def random_llama(
    hidden: int, layers: int, heads: int, kv_heads: int, feed_forward: int, vocabulary: int, **others: object
) -> LlamaForCausalLM:
    """A Llama with the same random weights in every run. `others` are further fields of its configuration."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=feed_forward,
        max_position_embeddings=8192,
        **others,
    )
    return LlamaForCausalLM(config)


def worker_config(model: str, device: str, micro_batch_tokens: int, *settings: str) -> DictConfig:
    """dph_trainer.yaml for the worker of a model without a tokenizer, with further settings."""
    actor = "actor_rollout_ref.actor"
    ours = [
        f"actor_rollout_ref.model.path={model}",
        "+actor_rollout_ref.model.load_tokenizer=False",
        f"device={device}",
        f"{actor}.strategy=fsdp2",
        f"{actor}.use_dynamic_bsz=True",
        f"{actor}.ppo_max_token_len_per_gpu={micro_batch_tokens}",
        f"{actor}.use_torch_compile=False",
        f"{actor}.optim.total_training_steps=1000",
    ]
    return compose("dph_trainer", [*ours, *settings])


def actor_worker(config: DictConfig) -> TrainingWorker:
    """verl's TrainingWorker as ActorRolloutRefWorker.init_model builds it for the actor, with the loss of `config`.

    Args:
        config: of dph_trainer.yaml.
    """
    replace_functions()
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    engine = actor.engine
    engine.use_dynamic_bsz = actor.use_dynamic_bsz
    engine.max_token_len_per_gpu = engine.infer_max_token_len_per_gpu = actor.ppo_max_token_len_per_gpu
    engine.micro_batch_size_per_gpu = engine.infer_micro_batch_size_per_gpu = actor.ppo_micro_batch_size_per_gpu
    worker = TrainingWorker(
        TrainingWorkerConfig(
            model_type="language_model",
            model_config=omega_conf_to_dataclass(config.actor_rollout_ref.model, dataclass_type=HFModelConfig),
            engine_config=engine,
            optimizer_config=actor.optim,
            checkpoint_config=actor.checkpoint,
        )
    )
    worker.reset()
    set_loss(worker, config)
    return worker


def set_loss(worker: TrainingWorker, config: DictConfig) -> None:
    """Give the worker the loss that the trainer gives it for these settings."""
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    of_run = terms(config)
    loss = partial(rehearsal_loss, terms=of_run) if of_run.pef or of_run.exp else ppo_loss
    worker.set_loss_fn(partial(loss, config=actor))


def batch_of(rows: list[dict[str, torch.Tensor]]) -> TensorDict:
    """A batch as TransferQueue gives it to a worker: fields of one number per row are dense, all others jagged."""
    columns = {}
    for name in sorted(rows[0]):
        parts = [row[name] for row in rows]
        scalar = parts[0].dim() == 0
        columns[name] = torch.stack(parts) if scalar else torch.nested.as_nested_tensor(parts, layout=torch.jagged)
    return TensorDict(columns, batch_size=len(rows))
