"""What the updates of a training step need: D_pef rows in their order, and eta, the weight of the divergence."""

import os

from omegaconf import DictConfig
from verl.utils.config import omega_conf_to_dataclass

from verl.dph.divergence.eta_schedule import EtaSchedule
from verl.dph.pef.row_filter import usable
from verl.dph.pef.store import Row, Store
from verl.dph.pef.visit_order import RehearsalOrder
from verl.dph.training.config import has_divergence, mini_batch_rows, rehearses


class PefFeed:
    """The rows and eta of every step.

    Args:
        config: verl's trainer settings of a run with a divergence.
        store: the rows that the run can use (pef/row_filter.py); None for a divergence on D_exp alone.

    Attributes:
        order: the order in which rows are visited; None without a store.
        eta: eta of every step.
    """

    def __init__(self, config: DictConfig, store: Store | None):
        actor = config.actor_rollout_ref.actor
        self.store, self.path, self.order = store, config.data.sft_pt, None
        self.eta = EtaSchedule(omega_conf_to_dataclass(actor.sft_loss_control), actor.sft_loss_coeff)
        self.rows_per_mini_batch = mini_batch_rows(config)[1]
        self._taken = 0  # rows, in this step
        if store is not None:
            self.order = RehearsalOrder([row.id for row in store.rows], config.data.sft_seed, store.fingerprint())

    @classmethod
    def of(cls, config: DictConfig) -> "PefFeed | None":
        """The feed of a run with the rows of data.sft_pt; None for a run without a divergence.

        Raises:
            UserError: the store cannot be read, or has too few rows for a step.
        """
        if not has_divergence(config):
            return None
        path = os.path.expanduser(config.data.sft_pt) if rehearses(config) else None
        return cls(config, None if path is None else usable(Store.load(path), config).store)

    def __str__(self) -> str:
        if self.store is None:
            return "no rows"
        rows = f"{len(self.store)} rows ({self.store.num_tokens} response tokens) of {self.path}"
        return f"{rows}, {self.rows_per_mini_batch} per mini-batch"

    @property
    def ids(self) -> set[int | str] | None:
        """The prompts that are rehearsed; None without a store."""
        return None if self.store is None else {row.id for row in self.store.rows}

    def take(self, mini_batches: int) -> list[list[Row]]:
        """The next rows for each mini-batch; empty lists without a store."""
        if self.store is None or self.order is None:
            return [[] for _ in range(mini_batches)]
        self._taken += mini_batches * self.rows_per_mini_batch
        rows = self.store.rows
        return [[rows[i] for i in self.order.take(self.rows_per_mini_batch)] for _ in range(mini_batches)]

    def take_metrics(self) -> dict[str, float]:
        """dph/rows, the rows that the step took, and dph/epoch, the epochs of D_pef so far; {} if it took none."""
        taken, self._taken = self._taken, 0
        return {"dph/rows": taken, "dph/epoch": self.order.epochs} if self.order is not None and taken else {}
