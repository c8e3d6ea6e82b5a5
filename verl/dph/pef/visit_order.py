"""The order in which D_pef is visited: epochs over seeded permutations, no row twice before all were seen once."""

import torch


class RehearsalOrder:
    """An endless, seeded sequence of row indices that can be saved and resumed.

    The order depends on the seed and the number of rows alone, not on ranks, mini-batches or how many rows are taken at
    a time.

    Args:
        num_rows: rows of the store, at least 1.
        seed: of the permutations.
    """

    def __init__(self, num_rows: int, seed: int):
        self.num_rows, self.seed = num_rows, seed
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

    def state_dict(self) -> dict[str, int]:
        """What a resumed run needs, as plain numbers."""
        return {"num_rows": self.num_rows, "seed": self.seed, "epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue where `state` was taken.

        Raises:
            ValueError: when it belongs to another number of rows or seed.
        """
        for name in ("num_rows", "seed"):
            if state[name] != getattr(self, name):
                raise ValueError(f"the saved order has {name} {state[name]}, this run has {getattr(self, name)}")
        self.epoch, self.position = state["epoch"], state["position"]
        self._permutation = self._draw()
