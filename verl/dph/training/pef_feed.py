"""What the updates of a training step need: stored rows in their order, and eta, the weight of the divergence."""

import os

from omegaconf import DictConfig
from verl.utils.config import omega_conf_to_dataclass

from verl.dph.objective.eta import EtaSchedule
from verl.dph.pef.row_filter import usable
from verl.dph.pef.store import Row, Store
from verl.dph.pef.visit_order import RehearsalOrder
from verl.dph.training.config import has_anchor, has_divergence, mini_batch_rows, rehearses


class StoredRows:
    """The rows of a store in the order in which they are visited.

    Args:
        store: the rows that the run can use (pef/row_filter.py).
        seed: of the order.
        per_mini_batch: rows of an optimizer mini-batch, over all ranks.
    """

    def __init__(self, store: Store, seed: int, per_mini_batch: int):
        self.store, self.per_mini_batch = store, per_mini_batch
        self.order = RehearsalOrder([row.id for row in store.rows], seed, store.fingerprint())

    def take(self) -> list[Row]:
        """The rows of the next mini-batch."""
        return [self.store.rows[i] for i in self.order.take(self.per_mini_batch)]


class PefFeed:
    """The rows and eta of every step.

    Args:
        config: verl's trainer settings of a run with a divergence.
        store: the rows of data.sft_pt that the run can use; None for a divergence on D_exp alone.
        anchor: those of data.sft_anchor_pt; None without an anchor.

    Attributes:
        pef, anchor: the rows of both; None without.
        eta: eta of every step on D_pef, or on D_exp alone.
    """

    def __init__(self, config: DictConfig, store: Store | None, anchor: Store | None = None):
        actor, data = config.actor_rollout_ref.actor, config.data
        self.eta = EtaSchedule(omega_conf_to_dataclass(actor.sft_loss_control), actor.sft_loss_coeff)
        _, pef_rows, anchor_rows = mini_batch_rows(config)
        self.pef = None if store is None else StoredRows(store, data.sft_seed, pef_rows)
        self.anchor = None if anchor is None else StoredRows(anchor, data.sft_seed, anchor_rows)
        self._taken = 0  # D_pef rows, in this step

    @classmethod
    def of(cls, config: DictConfig) -> "PefFeed | None":
        """The feed of a run with the rows of its stores; None for a run without a divergence.

        Raises:
            UserError: a store cannot be read, or has too few rows for a step.
        """
        if not has_divergence(config):
            return None
        names = [name for name, there in (("sft", rehearses(config)), ("sft_anchor", has_anchor(config))) if there]
        stores = [Store.load(os.path.expanduser(config.data[f"{name}_pt"])) for name in names]
        rows = [usable(store, config, name)[0] for name, store in zip(names, stores, strict=True)]
        return cls(config, *rows) if rows else cls(config, None)

    def take(self, mini_batches: int) -> list[tuple[list[Row], list[Row]]]:
        """The next rows of D_pef and of the anchor for each mini-batch; empty lists without a store."""
        pef, anchor = self.pef, self.anchor
        found = [(pef.take() if pef else [], anchor.take() if anchor else []) for _ in range(mini_batches)]
        self._taken += sum(len(rows) for rows, _ in found)
        return found

    def take_metrics(self) -> dict[str, float]:
        """dph/rows, the rows that the step took, and dph/epoch, the epochs of D_pef so far; {} if it took none."""
        taken, self._taken = self._taken, 0
        return {"dph/rows": taken, "dph/epoch": self.pef.order.epochs} if self.pef is not None and taken else {}
