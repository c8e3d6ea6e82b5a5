"""One rank of verl's real TrainingWorker, which computes the gradients of one mixed step and writes them down.

Started by test_rehearsal_loss.py, one process per rank, with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and
VERL_PLATFORM=cpu.
argv: model folder, output folder, then variants `NAME:override,override...` of dph_trainer; each writes
NAME.safetensors.
"""

import os
import sys

import torch
from safetensors.torch import save_file
from verl.trainer.ppo.padding_utils import construct_minimal_padding_template
from verl.utils import tensordict_utils as tu
from verl.workers.engine.fsdp import transformer_impl

from benchmarks.standalone_worker import actor_worker, batch_of
from rl.configuration.compose import compose
from verl.dph.objective import log_probs, success_cap
from verl.dph.objective.advantages import MAXRL, likelihood_advantages
from verl.dph.objective.rehearsal import over_accepted
from verl.dph.pef.batch_fields import (
    ANCHOR_NUM_TOKENS,
    OF_ANCHOR,
    PEF_NUM_TOKENS,
    PEF_REF_LOG_PROBS,
)
from verl.dph.pef.store import Row
from verl.dph.training.config import has_anchor, rehearses
from verl.dph.training.mixed_batch import deal, interleave

EXP_ROWS, PEF_ROWS, MINI_BATCHES = 16, 8, 2
# The stored rows of a mini-batch that are the anchor's, in variants with one.
ANCHOR_ROWS = (1, 2)
# Which responses are correct, for the success cap and MaxRL: four groups of four, one after the other.
GROUP, CORRECT = 4, (1, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1)


def random_rows(count, seed):
    """Rows of uneven lengths, the same on every rank."""
    g = torch.Generator().manual_seed(seed)

    def row(i):
        p, r = (int(torch.randint(low, high, (1,), generator=g)) for low, high in ((3, 9), (2, 14)))
        ids = torch.randint(3, 64, (p + r,), generator=g)
        return Row(i, ids[:p], ids[p:], -3 * torch.rand(r, generator=g))

    return [row(i) for i in range(count)]


def whole_step(of_anchor=()):
    """(D_exp, stored) rows of the step as {field: one tensor a row}; D_exp rank-major for 1 rank, i.e.
    mini-batch-major.

    of_anchor: which stored rows of a mini-batch are the anchor's, the others being of D_pef.
    """
    exp, pef = random_rows(EXP_ROWS, seed=1), random_rows(PEF_ROWS, seed=2)
    size = PEF_ROWS // MINI_BATCHES
    lengths = [[len(r.response) for r in pef[k * size :][:size]] for k in range(MINI_BATCHES)]
    of_anchors = [sum(part[i] for i in of_anchor) for part in lengths]
    counts = [sum(part) - of_them for part, of_them in zip(lengths, of_anchors, strict=True)]
    g = torch.Generator().manual_seed(3)

    def fields(row, mini_batch):
        zeros = torch.zeros(len(row.response))
        return {
            "input_ids": torch.cat([row.prompt, row.response]),
            "position_ids": torch.arange(len(row.prompt) + len(row.response)),
            "prompts": row.prompt,
            "responses": row.response,
            "old_log_probs": row.ref_log_probs,
            PEF_NUM_TOKENS: torch.tensor(counts[mini_batch]),
            ANCHOR_NUM_TOKENS: torch.tensor(of_anchors[mini_batch]),
            OF_ANCHOR: torch.tensor(0),
        } | dict.fromkeys(("response_mask", "loss_mask", "advantages", "ref_log_prob"), zeros)

    exp_rows, pef_rows = [], []
    for i, row in enumerate(exp):
        ones = torch.ones(len(row.response))
        exp_rows.append(
            fields(row, i // (EXP_ROWS // MINI_BATCHES))
            | {
                "response_mask": ones.long(),
                "loss_mask": ones.long(),
                "advantages": ones * torch.randn(1, generator=g),
                "ref_log_prob": row.ref_log_probs + 0.7 * torch.randn(len(ones), generator=g),
                PEF_REF_LOG_PROBS: torch.zeros(0),
            }
        )
    for i, row in enumerate(pef):
        zeros = torch.zeros(len(row.response), dtype=torch.int64)
        pef_rows.append(
            fields(row, i // size)
            | {
                "response_mask": zeros,
                "loss_mask": zeros,
                PEF_REF_LOG_PROBS: row.ref_log_probs,
                OF_ANCHOR: torch.tensor(int(i % size in of_anchor)),
            }
        )
    return exp_rows, pef_rows


def padding_like(row):
    """The row that verl's trainer puts in the place of a rollout that failed, with what it then computes of it."""
    padding, _ = construct_minimal_padding_template(row, {}, eos_token_id=1)
    one = torch.ones(len(padding["responses"]))
    return padding | {"old_log_probs": -one, "ref_log_prob": -2 * one, "advantages": 5 * one}


def rows_of_rank(rank, ranks, config):
    """This rank's chunk of the step, as the trainer orders and verl cuts it, with the fields that the mode has."""
    exp, pef = whole_step(ANCHOR_ROWS if has_anchor(config) else ())
    for row in config.trainer.get("masked_rows", []):
        exp[row] = padding_like(exp[row])
    if config.algorithm.adv_estimator == MAXRL:
        found = likelihood_advantages({f"{row // GROUP}_{row}": float(correct) for row, correct in enumerate(CORRECT)})
        for number, row in enumerate(exp):
            row["advantages"] = torch.full_like(row["advantages"], found[f"{number // GROUP}_{number}"])
    if config.algorithm.success_cap is not None:
        verdicts = {f"{row // GROUP}_{row}": float(correct) for row, correct in enumerate(CORRECT)}
        prompts, _ = success_cap.capped(verdicts, config.algorithm.success_cap)
        for prompt in prompts:
            for row in exp[int(prompt) * GROUP :][:GROUP]:
                row["advantages"] = torch.zeros_like(row["advantages"])
    actor, has_pef = config.actor_rollout_ref.actor, rehearses(config)
    per, size = EXP_ROWS // MINI_BATCHES // ranks, PEF_ROWS // MINI_BATCHES
    mini_batches = [pef[k * size : (k + 1) * size] for k in range(MINI_BATCHES)]
    pef = [row for part in mini_batches for row in deal(part, [len(row["input_ids"]) for row in part], ranks)]
    # The same rows in the same mini-batch whatever the number of ranks: rank-major order of them.
    order = interleave(
        [exp[k * per * ranks + r * per + i] for r in range(ranks) for k in range(MINI_BATCHES) for i in range(per)],
        pef if has_pef else [],
        mini_batches=MINI_BATCHES,
        ranks=ranks,
    )
    size = len(order) // ranks
    mine = order[rank * size : (rank + 1) * size]
    names = set(pef[0])
    if not has_pef:
        names -= {PEF_NUM_TOKENS, PEF_REF_LOG_PROBS}
    if not has_anchor(config):
        names -= {OF_ANCHOR, ANCHOR_NUM_TOKENS}
    if not actor.use_kl_loss:
        names -= {"ref_log_prob"}
    return batch_of([{name: row[name] for name in names} for row in mine])


def build_config(model, overrides):
    return compose("dph_trainer", [f"actor_rollout_ref.model.path={model}", "device=cpu", *overrides])


def run(worker, config, rank, ranks):
    """Gradients and metrics of the mini-batches of one step: {"k.parameter": ..., "metric.name": (mini-batches,)}.

    Mini-batches are counted through all epochs. "weight.parameter" are a LoRA variant's random matrices A.
    """
    found, actor = {}, config.actor_rollout_ref.actor
    steps = iter(range(MINI_BATCHES * actor.ppo_epochs))
    trained = {name: p for name, p in worker.engine.module.named_parameters() if p.requires_grad}

    def keep_gradients():
        """In place of the optimizer step: the weights stay as they are, so that mini-batches are comparable."""
        k = next(steps)
        for name, parameter in trained.items():
            found[f"{k}.{name}"] = parameter.grad.full_tensor().clone()
        return torch.tensor(0.0)

    worker.engine.optimizer_step = keep_gradients
    # The ranks of a Ulysses group have the same rows, and the first of them has the metrics.
    rank, ranks = (number // actor.ulysses_sequence_parallel_size for number in (rank, ranks))
    data = rows_of_rank(rank, ranks, config)
    tu.assign_non_tensor(
        data,
        mini_batch_size=len(data) * ranks // MINI_BATCHES,
        global_batch_size=EXP_ROWS // MINI_BATCHES,
        epochs=actor.ppo_epochs,
        seed=1,
        dataloader_kwargs={"shuffle": False},
        temperature=1.0,
        calculate_entropy=actor.calculate_entropy or actor.entropy_coeff != 0.0,
    )
    output = worker.train_mini_batch(data)
    for name, parameter in trained.items():
        if ".lora_A." in name:
            found[f"weight.{name}"] = parameter.full_tensor().detach().clone()
    if output is None:
        return found
    metrics = over_accepted(tu.get(output, "metrics"))
    wanted = [key for key in metrics if key.startswith("dph/")] + ["actor/pg_loss", "actor/ppo_kl"]
    return found | {f"metric.{key}": torch.tensor([float(v) for v in metrics[key]]) for key in wanted}


def main(model, folder, *variants):
    torch.set_num_threads(1)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    import flash_attention_on_cpu  # beside this file, which is the program here

    flash_attention_on_cpu.register()
    for variant in variants:
        name, overrides = variant.split(":")
        config = build_config(model, overrides.split(";"))
        torch.manual_seed(0)  # of LoRA's initial weights
        worker = actor_worker(config)
        assert transformer_impl.logprobs_from_logits is log_probs.log_probs_of  # actor_worker has put it in place
        found = run(worker, config, rank, ranks)
        if rank == 0:
            save_file(found, os.path.join(folder, f"{name}.safetensors"))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
