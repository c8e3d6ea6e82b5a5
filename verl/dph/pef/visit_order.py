"""The order in which D_pef is visited: epochs over seeded permutations, no row twice before all were seen once."""

from typing import Any

import torch


class RehearsalOrder:
    """An endless, seeded sequence of row indices that can be saved and resumed.

    The order depends on the seed and the number of rows alone, not on ranks, mini-batches or how many rows are taken at
    a time.

    Args:
        num_rows: rows of the store, at least 1.
        seed: of the permutations.
        store: fingerprint of the rows; it does not change the order, but a saved position is one in this store only.
    """

    def __init__(self, num_rows: int, seed: int, store: str | None = None):
        self.num_rows, self.seed, self.store = num_rows, seed, store
        self.epoch, self.position = 0, 0
        self._permutation = self._draw()

    def _draw(self) -> list[int]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        return torch.randperm(self.num_rows, generator=generator).tolist()

    def take(self, count: int) -> list[int]:
        """The next `count` indices."""
        taken: list[int] = []
        while len(taken) < count:
            if self.position == self.num_rows:
                self.epoch, self.position = self.epoch + 1, 0
                self._permutation = self._draw()
            part = self._permutation[self.position : self.position + count - len(taken)]
            self.position += len(part)
            taken += part
        return taken

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs, as JSON values."""
        state = ("num_rows", "seed", "store", "epoch", "position")
        return {name: getattr(self, name) for name in state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken.

        Raises:
            ValueError: when it belongs to another number of rows, seed or store; older states do not name the store.
        """
        for name, found in (("num_rows", self.num_rows), ("seed", self.seed), ("store", self.store)):
            if state.get(name, found) != found:
                raise ValueError(f"the saved order has {name} {state[name]}, this run has {found}")
        self.epoch, self.position = state["epoch"], state["position"]
        self._permutation = self._draw()
