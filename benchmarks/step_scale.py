"""Time and memory of a training step's work outside the GPUs, for a step that needs many GPUs, against budgets.

    python benchmarks/step_scale.py [--rows 16384] [--tokens 4096] [--ranks 64] [--small]

One step runs on this machine with verl's trainer methods and TransferQueue, but without a model. Rollouts of random
tokens are put into the queue. The trainer looks for them, orders and balances them, computes old log-probs and
advantages from the ranks' results, mixes D_pef in, and every rank reads its part. The ranks take turns here, and each
reads as verl's worker does; `slowest rank` is the time of one of them.

GB is the most that the driver held in the phase, and the memory of TransferQueue's processes at its end. The exit code
is 1 if a phase exceeds its budget. The full size needs about 11 GB (estimated); --small has 2,048 rows of 64 tokens.
"""

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import psutil
import ray
import torch
import transfer_queue as tq
from peak_memory import reset_peak, resident
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.utils import tensordict_utils as tu
from verl.utils import transferqueue_utils

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.configuration.compose import compose
from verl.dph.pef.batch_fields import jagged
from verl.dph.pef.store import Row
from verl.dph.training import mixed_batch
from verl.dph.training.rollout_ledger import RolloutLedger
from verl.dph.training.trainer import SyncTrainer

N, MINI_BATCHES, PEF_SHARE = 16, 4, 8  # rollouts per prompt; optimizer steps; D_exp rows to a D_pef row
PUT_ROWS = 256  # per call; verl's agent loops put rows one by one, in many processes
GB = 1e9

# Seconds, and the driver's GB, at 16,384 rows of 4,096 tokens: two to four times the measurement on two cores with a
# load of 8. A step of this size takes minutes on 64 GPUs.
BUDGETS = {
    "look for rollouts": (0.5, 2.0),
    "order and balance": (5.0, 2.0),
    "old log-probs": (120.0, 8.0),
    "advantages": (90.0, 8.0),
    "mix D_pef in": (15.0, 5.0),
    "slowest rank": (3.0, 5.0),
    "take D_pef out": (1.0, 5.0),
}


@dataclass
class Phases:
    """The seconds and GB of each phase, by its name."""

    found: dict[str, tuple[float, float]] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        reset_peak()
        started = time.perf_counter()
        yield
        self.add(name, time.perf_counter() - started, resident("VmHWM"))

    def add(self, name: str, seconds: float, peak: int) -> None:
        self.found[name] = (seconds, peak / GB)
        sys.stdout.write(f"{name:<20}{seconds:9.3f} s   driver {peak / GB:6.2f} GB   queue {queue_gb():6.2f} GB\n")
        sys.stdout.flush()

    def over_budget(self) -> list[str]:
        return [
            f"{name}: {seconds:.2f} s and {gigabytes:.1f} GB, budget {BUDGETS[name][0]} s and {BUDGETS[name][1]} GB"
            for name, (seconds, gigabytes) in self.found.items()
            if name in BUDGETS and (seconds > BUDGETS[name][0] or gigabytes > BUDGETS[name][1])
        ]


def queue_gb() -> float:
    """Memory of TransferQueue's controller and storage, which Ray names after their classes; shared pages divided."""
    names = ("TransferQueueController", "SimpleStorageUnit")
    total = 0
    for child in psutil.Process().children(recursive=True):
        try:
            command = " ".join(child.cmdline())
            total += child.memory_full_info().pss if any(name in command for name in names) else 0
        except psutil.Error:
            continue
    return total / GB


class Ranks:
    """The workers' side of a step without a model. The trainer uses it like verl's worker group."""

    def __init__(self, count: int):
        self._dispatch_info = {"actor": list(range(count))}
        self.count = count
        self.seconds: list[float] = []

    def compute_log_prob(self, batch: KVBatchMeta) -> KVBatchMeta:
        """Put random log-probs and entropies of whole rows back, rank by rank."""
        for part in batch.chunk(self.count):
            values = [-torch.rand(tag["seq_len"]) for tag in part.tags]
            columns = TensorDict({"log_probs": jagged(values), "entropy": jagged(values)}, batch_size=len(part.keys))
            tq.kv_batch_put(keys=part.keys, partition_id=part.partition_id, fields=columns)
        return batch

    def update_actor(self, batch: KVBatchMeta) -> list[list[list[int]]]:
        """Read the batch as the ranks do; return the tokens of the rows by [rank][mini-batch]."""
        lengths = []
        for part in batch.chunk(self.count):
            started = time.perf_counter()
            data = transferqueue_utils._meta_to_realdata(part)
            self.seconds.append(time.perf_counter() - started)
            tokens = data["input_ids"].offsets().diff().tolist()
            size = len(tokens) // MINI_BATCHES
            lengths.append([tokens[k * size : (k + 1) * size] for k in range(MINI_BATCHES)])
        return lengths


class Driver(SyncTrainer):
    """The part of the trainer that runs in the driver between rollouts and update, without workers."""

    def __init__(self, config, ranks: int):
        self.config, self.use_critic, self.global_steps, self.trainer_mode = config, False, 1, "sync"
        self.ledger = RolloutLedger(config)
        self.tokenizer = SimpleNamespace(eos_token_id=0)
        self.actor_rollout_wg = Ranks(ranks)


def config_of(options: argparse.Namespace):
    overrides = [
        "device=cpu",
        f"data.train_batch_size={options.rows // N}",
        f"actor_rollout_ref.rollout.n={N}",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={options.rows // N // MINI_BATCHES}",
        "algorithm.adv_estimator=grpo",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=2",
    ]
    return compose("dph_trainer", overrides)


def lengths_of(rows: int, tokens: int, seed: int) -> list[tuple[int, int]]:
    """(prompt, response) tokens: on average half of each; responses deviate from their mean by up to a third."""
    random, half = np.random.default_rng(seed), tokens // 2
    return [(half, int(n)) for n in random.integers(half * 2 // 3, half * 4 // 3, rows, endpoint=True)]


def put_rollouts(options: argparse.Namespace) -> None:
    """Fill the queue as verl's agent loops do: with a marker for each prompt and the rows of its rollouts."""
    prompts = [f"step{1:08d}-{number:06d}" for number in range(options.rows // N)]
    marks = [{"is_prompt": True, "status": "finished", "global_steps": 1} for _ in prompts]
    tq.kv_batch_put(keys=prompts, partition_id="train", tags=marks)
    lengths = lengths_of(options.rows, options.tokens, seed=1)
    rewards = np.random.default_rng(2).integers(0, 2, options.rows).tolist()
    for start in range(0, options.rows, PUT_ROWS):
        rows = range(start, min(start + PUT_ROWS, options.rows))
        ids = [torch.randint(0, 100_000, (sum(lengths[row]),)) for row in rows]
        p = lengths[start][0]
        ones = [torch.ones(lengths[row][1], dtype=torch.int64) for row in rows]
        scores = [torch.zeros(lengths[row][1]) for row in rows]
        for score, row in zip(scores, rows, strict=True):
            score[-1] = rewards[row]
        columns = {
            "input_ids": jagged(ids),
            "position_ids": jagged([torch.arange(len(part)) for part in ids]),
            "prompts": jagged([part[:p] for part in ids]),
            "responses": jagged([part[p:] for part in ids]),
            "response_mask": jagged(ones),
            "loss_mask": jagged(ones),
            "rm_scores": jagged(scores),
            "rollout_log_probs": jagged([-torch.rand(len(part)) for part in ones]),
        }
        names = {
            "uid": np.array([prompts[row // N] for row in rows], dtype=object),
            "data_source": np.array(["sql"] * len(rows), dtype=object),
            "extra_fields": np.array([{"reward_extra_info": {"acc": rewards[row]}} for row in rows], dtype=object),
        }
        tags = [
            {"status": "success", "prompt_len": p, "response_len": lengths[row][1], "seq_len": sum(lengths[row])}
            | dict.fromkeys(("global_steps", "min_global_steps", "max_global_steps"), 1)
            for row in rows
        ]
        tq.kv_batch_put(
            keys=[f"{prompts[row // N]}_{row % N}_0" for row in rows],
            partition_id="train",
            fields=TensorDict(columns | dict(tu.get_tensordict(names).items()), batch_size=len(rows)),
            tags=tags,
        )


def pef_rows(options: argparse.Namespace) -> list[list[Row]]:
    """D_pef rows by mini-batch, with the lengths of the rollouts."""
    lengths = lengths_of(options.rows // PEF_SHARE, options.tokens, seed=3)
    rows = [
        Row(
            i,
            torch.randint(0, 100_000, (p,), dtype=torch.int32),
            torch.randint(0, 100_000, (r,), dtype=torch.int32),
            -torch.rand(r),
        )
        for i, (p, r) in enumerate(lengths)
    ]
    size = len(rows) // MINI_BATCHES
    return [rows[k * size : (k + 1) * size] for k in range(MINI_BATCHES)]


def run(options: argparse.Namespace) -> Phases:
    phases, config = Phases(), config_of(options)
    ray.init(address="local", num_cpus=8, include_dashboard=False, log_to_driver=False)
    try:
        tq.init(config.transfer_queue)
        transferqueue_utils.TQ_INITIALIZED = True
        driver = Driver(config, options.ranks)
        with phases.phase("put rollouts"):
            put_rollouts(options)
        buffer = ReplayBuffer("sync", {}, None, "drop", {})
        with phases.phase("look for rollouts"):
            buffer._sync_metadata_from_transfer_queue()
        batch, _ = buffer.sample(global_steps=1, partition_id="train", batch_size=options.rows // N)
        with phases.phase("order and balance"):
            batch = driver._balance_batch(batch, {})
        with phases.phase("old log-probs"):
            batch = driver._compute_old_log_prob(batch, {})
        with phases.phase("advantages"):
            batch = driver._compute_advantage(batch, {})
        pef = pef_rows(options)
        mixing = mixed_batch.mixed(batch, pef, ranks=options.ranks)
        with phases.phase("mix D_pef in"):
            mixed = mixing.__enter__()
        with phases.phase("all ranks read"):
            tokens = driver.actor_rollout_wg.update_actor(mixed)
        slowest = max(driver.actor_rollout_wg.seconds)
        phases.add("slowest rank", slowest, resident("VmRSS"))
        with phases.phase("take D_pef out"):
            mixing.__exit__(None, None, None)
    finally:
        ray.shutdown()
    check_shares(tokens, options)
    return phases


def check_shares(tokens: list[list[list[int]]], options: argparse.Namespace) -> None:
    """Print by how much a rank's tokens in a mini-batch exceed the ranks' mean.

    Raises:
        UserError: a rank does not have its share of a mini-batch's rows.
    """
    expected = (options.rows + options.rows // PEF_SHARE) // (MINI_BATCHES * options.ranks)
    if any(len(rows) != expected for of_rank in tokens for rows in of_rank):
        raise UserError(f"A rank does not have {expected} rows in every mini-batch.")
    sums = [[sum(of_rank[k]) for of_rank in tokens] for k in range(MINI_BATCHES)]
    excess = max(max(part) / (sum(part) / len(part)) for part in sums) - 1
    sys.stdout.write(f"{options.ranks} ranks, {expected} rows each a mini-batch, at most {excess:.1%} above the mean\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], epilog="example: python benchmarks/step_scale.py --small"
    )
    parser.add_argument("--rows", type=int, default=16_384, help="D_exp rows of the step")
    parser.add_argument("--tokens", type=int, default=4096, help="mean tokens of a row")
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--small", action="store_true", help="2,048 rows of 64 tokens on 8 ranks, no budgets")
    options = parser.parse_args()
    if options.small:
        options.rows, options.tokens, options.ranks = 2048, 64, 8
    with user_errors_exit():
        unit = math.lcm(N * MINI_BATCHES, PEF_SHARE * MINI_BATCHES * options.ranks)
        if options.rows % unit:
            raise UserError(f"--rows={options.rows} must be a multiple of {unit} with --ranks={options.ranks}.")
        sys.stdout.write(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
        over = run(options).over_budget()
        full = (options.rows, options.tokens, options.ranks) == (16_384, 4096, 64)
        if over and full:
            raise UserError("Over budget: " + "; ".join(over) + ".")


if __name__ == "__main__":
    main()
