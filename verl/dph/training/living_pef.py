"""The trainer's part of a D_pef that lives (mastered_prompts.py): what a step draws, masters and keeps."""

from collections.abc import Iterable, Iterator, Set
from pathlib import Path

import torch
import transfer_queue as tq
from omegaconf import open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.utils import tensordict_utils as tu
from verl.utils.dataset.rl_dataset import collate_fn

from verl.dph.pef.store import Row, Store
from verl.dph.pef.visit_order import RehearsalOrder
from verl.dph.sampling.job import stop_ids
from verl.dph.training import resume
from verl.dph.training.config import has_keep_probe
from verl.dph.training.diversity import response_of
from verl.dph.training.keep_probe import KeepProbe
from verl.dph.training.mastered_prompts import Group, MasteredPrompts
from verl.dph.training.rollout_accounting import CheckedRollouts, Scored
from verl.dph.training.run_record import RunRecord


class LivingPef(CheckedRollouts):
    """Mixin of a trainer that rehearses; without data.sft_refresh its D_pef is the store's.

    Attributes:
        store: D_pef, None if the run does not rehearse.
        rehearsed: its rows and those of mastered prompts.
        order: in which they are visited.
    """

    store: Store | None = None
    keep_probe: KeepProbe | None = None
    mastered: MasteredPrompts | None = None
    record: RunRecord
    rehearsed: list[Row]
    order: RehearsalOrder

    def _init_dataloader(self):
        refresh = self.config.data.sft_refresh
        if refresh:
            with open_dict(self.config):
                self.config.data.gen_batch_size = 1  # so that single prompts can be passed over
        super()._init_dataloader()
        if has_keep_probe(self.config):
            stored = None if self.store is None else {row.id for row in self.store.rows}
            self.keep_probe = KeepProbe(self.config, self.tokenizer, self.processor, stored)
        if refresh and self.store is not None:
            self.row_of = {id: row for row, id in enumerate(self.train_dataset.dataframe["id"])}
            self.mastered = MasteredPrompts.of_run(self.config.data, self.row_of.keys(), self.store)
            self.ends = stop_ids(self.config.actor_rollout_ref.model, self.tokenizer)

    def _rehearse(self, mastered: list[Row]) -> None:
        """Rehearse these rows beside D_pef, from the beginning of an epoch."""
        assert self.store is not None
        self.rehearsed, epoch = self.store.rows + mastered, self.order.epoch + 1
        self.order = resume.visit_order(Store(self.store.meta, self.rehearsed), self.config)
        self.order.load_state_dict({"epoch": epoch, "position": 0})

    def _draw_prompts(self, first: int) -> TensorDict:
        """Pass over D_exp prompts that are rehearsed instead; explore D_pef prompts that were lost."""
        if self.mastered is None:
            return super()._draw_prompts(first)
        returned = self.mastered.returned_prompt([self.config.data.sft_seed, self.global_steps, first])
        item = None if self.keep_probe is None else self.keep_probe.solved.get(returned)
        if item is not None:
            return tu.get_tensordict(collate_fn([{name: item.get(name) for name in self.train_dataset[0]}]))
        batch = super()._draw_prompts(first)
        while batch["id"][0] in self.mastered.rehearsed:
            batch = super()._draw_prompts(first)
        return batch

    def step(self, metrics: dict, timing_raw: dict) -> KVBatchMeta:
        batch = super().step(metrics, timing_raw)
        if self.mastered is None:
            return batch
        n = self.config.actor_rollout_ref.rollout.n
        for id, correct, group in groups_of(self.scored, batch.partition_id, self.global_steps, self.ends):
            self.mastered.observe(id, correct, n, group)
        if self.global_steps % self.config.data.sft_refresh == 0 and self.mastered.refresh():
            self._rehearse(self.mastered.rows)
        metrics.update(self.mastered.metrics())
        return batch

    def _validate(self) -> dict[str, float]:
        """verl's validation, and the keep probe's: it samples mastered prompts too, and notes what is lost."""
        metrics = super()._validate()
        if self.keep_probe is None:
            return metrics
        if self.mastered is None:
            return metrics | self.keep_probe.measure(self)[0]
        seed = [self.config.data.sft_seed, self.global_steps]
        ids = self.mastered.sample(self.config.trainer.keep_probe.prompts, seed)
        found, lost = self.keep_probe.measure(self, [self.train_dataset[self.row_of[id]] for id in ids])
        if self.global_steps:  # before training nothing is lost
            self.mastered.lost += lost
        if self.global_steps in self.record.checkpoints:  # verl validates after it has saved
            self.mastered.save(self._checkpoint_folder())
        return metrics | found

    def _save_checkpoint(self):
        if self.mastered is not None:
            self.mastered.save(self._checkpoint_folder())
        super()._save_checkpoint()

    def _load_checkpoint(self):
        super()._load_checkpoint()
        folder = resume.checkpoint_of(self.config)
        if self.mastered is not None and folder is not None:
            self.mastered.load(folder)
            self._rehearse(self.mastered.rows)

    def _checkpoint_folder(self) -> Path:
        return Path(self.config.trainer.default_local_dir, f"global_step_{self.global_steps}")


def groups_of(
    rows: Iterable[Scored], partition_id: str, step: int, ends: Set[int]
) -> Iterator[tuple[int | str, list[bool], Group]]:
    """(id, which responses are correct, the group) of each prompt of a step.

    A group has rows only where all responses are correct: whole single-turn responses, as the D_pef store has them.

    Args:
        rows: a step's, with old_log_probs, still in TransferQueue.
        ends: ids that end a response.
    """
    by_prompt: dict[str, dict[str, bool]] = {}
    for row in rows:
        correct = response_of(row.data_source, row.reward, row.info).correct
        by_prompt.setdefault(row.prompt, {})[row.key] = correct
    firsts = [next(iter(group)) for group in by_prompt.values()]
    ids = tq.kv_batch_get(keys=firsts, partition_id=partition_id, select_fields=["id"])["id"]
    for id, group in zip(ids, by_prompt.values(), strict=True):
        stored = _rows(id, list(group), partition_id, ends) if all(group.values()) else []
        yield id, list(group.values()), Group(step, stored)


def _rows(id: int | str, keys: list[str], partition_id: str, ends: Set[int]) -> list[Row]:
    fields = ["prompts", "responses", "response_mask", "old_log_probs"]
    data = tq.kv_batch_get(keys=keys, partition_id=partition_id, select_fields=fields)
    columns = (data[name].unbind() for name in fields)
    return [
        Row(id, prompt.to(torch.int32), response.to(torch.int32), log_probs.to(torch.float32, copy=True))
        for key, prompt, response, mask, log_probs in zip(keys, *columns, strict=True)
        if key.endswith("_0") and mask.all() and int(response[-1]) in ends
    ]
