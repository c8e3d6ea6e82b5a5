"""One rank of verl's real TrainingWorker, which computes the gradients of one mixed step and writes them down.

Started by test_gradients.py, one process a rank, with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and VERL_PLATFORM=cpu.
argv: model folder, output folder, then variants `NAME:override,override...` of dph_trainer; each writes NAME.safetensors.
"""

import os
import sys
from functools import partial

import torch
from hydra import compose, initialize_config_dir
from safetensors.torch import save_file
from tensordict import TensorDict

from verl.dph import pef_batch
from verl.dph.cli import CONFIG_DIR
from verl.dph.loss import PEF_MASK, PEF_NUM_TOKENS, PEF_REF_LOG_PROBS, rehearsal_loss
from verl.dph.mixing import interleave
from verl.dph.store import Row
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import HFModelConfig, TrainingWorkerConfig
from verl.workers.engine_workers import TrainingWorker

EXP_ROWS, PEF_ROWS, MINI_BATCHES = 16, 8, 2
DTYPES = {
    "input_ids": torch.int64,
    "position_ids": torch.int64,
    "prompts": torch.int64,
    "responses": torch.int64,
    "response_mask": torch.int64,
    "loss_mask": torch.int64,
    "old_log_probs": torch.float32,
    "advantages": torch.float32,
}


def random_rows(count, seed):
    """Rows of uneven lengths, the same on every rank."""
    g = torch.Generator().manual_seed(seed)

    def row(i):
        p, r = (int(torch.randint(low, high, (1,), generator=g)) for low, high in ((3, 9), (2, 14)))
        ids = torch.randint(3, 64, (p + r,), generator=g)
        return Row(i, ids[:p], ids[p:], -3 * torch.rand(r, generator=g))

    return [row(i) for i in range(count)]


def whole_step():
    """(D_exp, D_pef) rows of the step as TensorDicts; D_exp rank-major for 1 rank, i.e. mini-batch-major."""
    exp, pef = random_rows(EXP_ROWS, seed=1), random_rows(PEF_ROWS, seed=2)
    size = PEF_ROWS // MINI_BATCHES
    counts = [sum(len(r.response) for r in pef[k * size :][:size]) for k in range(MINI_BATCHES)]
    per_mini = EXP_ROWS // MINI_BATCHES
    exp_td = pef_batch._columns(exp, [counts[i // per_mini] for i in range(EXP_ROWS)], DTYPES)
    g = torch.Generator().manual_seed(3)
    ones = [torch.ones(len(r.response), dtype=torch.int64) for r in exp]
    zeros = [torch.zeros(len(r.response)) for r in exp]
    exp_td["response_mask"] = exp_td["loss_mask"] = pef_batch._jagged(ones)
    exp_td["advantages"] = pef_batch._jagged([z + torch.randn(1, generator=g) for z in zeros])
    exp_td[PEF_MASK] = exp_td[PEF_REF_LOG_PROBS] = pef_batch._jagged(zeros)
    pef_td = pef_batch._columns(pef, [counts[i // size] for i in range(PEF_ROWS)], DTYPES)
    return exp_td, pef_td


def rows_of_rank(rank, ranks):
    """This rank's chunk of the interleaved step, as the trainer orders and verl cuts it."""
    exp, pef = whole_step()
    per = EXP_ROWS // MINI_BATCHES // ranks
    # The same rows in the same mini-batch whatever the number of ranks: rank-major order of them.
    exp_order = [
        k * per * ranks + r * per + i for r in range(ranks) for k in range(MINI_BATCHES) for i in range(per)
    ]
    order = interleave(
        [("exp", i) for i in exp_order],
        [("pef", i) for i in range(PEF_ROWS)],
        mini_batches=MINI_BATCHES,
        ranks=ranks,
    )
    size = len(order) // ranks
    mine = order[rank * size : (rank + 1) * size]
    sources = {"exp": exp, "pef": pef}
    columns = {
        name: pef_batch._jagged([sources[kind][name][i] for kind, i in mine])
        for name in [*DTYPES, PEF_MASK, PEF_REF_LOG_PROBS]
    }
    columns[PEF_NUM_TOKENS] = torch.stack([sources[kind][PEF_NUM_TOKENS][i] for kind, i in mine])
    return TensorDict(columns, batch_size=len(mine))


def build_worker(model, overrides):
    """The worker as ActorRolloutRefWorker.init_model builds the actor's, with our loss."""
    with initialize_config_dir(str(CONFIG_DIR), version_base=None):
        config = compose("dph_trainer", [f"actor_rollout_ref.model.path={model}", "device=cpu", *overrides])
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    engine = actor.engine
    engine.use_dynamic_bsz = actor.use_dynamic_bsz
    engine.max_token_len_per_gpu = actor.ppo_max_token_len_per_gpu
    engine.micro_batch_size_per_gpu = actor.ppo_micro_batch_size_per_gpu
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
    worker.set_loss_fn(partial(rehearsal_loss, config=actor))
    return worker


def run(worker, rank, ranks):
    """Gradients and metrics of both mini-batches of one step: {"k.parameter": ..., "metric.name": (mini-batches,)}."""
    found = {}
    steps = iter(range(MINI_BATCHES))

    def keep_gradients():
        """In place of the optimizer step: the weights stay as they are, so that mini-batches are comparable."""
        k = next(steps)
        for name, parameter in worker.engine.module.named_parameters():
            found[f"{k}.{name}"] = parameter.grad.full_tensor().clone()
        return torch.tensor(0.0)

    worker.engine.optimizer_step = keep_gradients
    data = rows_of_rank(rank, ranks)
    tu.assign_non_tensor(
        data,
        mini_batch_size=(EXP_ROWS + PEF_ROWS) // MINI_BATCHES,
        global_batch_size=EXP_ROWS // MINI_BATCHES,
        epochs=1,
        seed=1,
        dataloader_kwargs={"shuffle": False},
        temperature=1.0,
        calculate_entropy=True,
        distillation_use_topk=False,
        distillation_only=False,
    )
    metrics = tu.get(worker.train_mini_batch(data), "metrics")
    wanted = [key for key in metrics if key.startswith("dph/")] + ["actor/pg_loss", "actor/ppo_kl"]
    return found | {f"metric.{key}": torch.tensor([float(v) for v in metrics[key]]) for key in wanted}


def main(model, folder, *variants):
    torch.set_num_threads(1)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    for variant in variants:
        name, overrides = variant.split(":")
        found = run(build_worker(model, overrides.split(",")), rank, ranks)
        if rank == 0:
            save_file(found, os.path.join(folder, f"{name}.safetensors"))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
