"""The order in which D_pef is visited: epochs over seeded permutations of its prompts, each with one response."""

from collections.abc import Hashable, Sequence
from typing import Any

import torch

from rl.common.fingerprint import short


class RehearsalOrder:
    """An endless, seeded sequence of row indices that can be saved and resumed.

    An epoch visits every prompt once, so that every prompt counts the same however many responses it has. A prompt's
    responses take turns from epoch to epoch, beginning with a random one. The order depends only on the seed and on
    which rows share a prompt.

    Args:
        prompt_ids: of each row of the store, at least one; rows of the same id are responses to one prompt.
        seed: of the permutations.
        store: fingerprint of the rows. It does not change the order; a saved position is valid in this store only.
    """

    def __init__(self, prompt_ids: Sequence[Hashable], seed: int, store: str | None = None):
        self.num_rows, self.seed, self.store = len(prompt_ids), seed, store
        of_prompt: dict[Hashable, list[int]] = {}
        for row, id in enumerate(prompt_ids):
            of_prompt.setdefault(id, []).append(row)
        self._rows = list(of_prompt.values())
        self._first = torch.randint(1 << 31, (len(self._rows),), generator=torch.Generator().manual_seed(seed)).tolist()
        self.epoch, self.position = 0, 0
        self._visits = self._draw()

    @property
    def epochs(self) -> float:
        """How often every prompt was visited."""
        return self.epoch + self.position / len(self._rows)

    def _draw(self) -> list[int]:
        """The rows of this epoch."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        prompts = torch.randperm(len(self._rows), generator=generator).tolist()
        return [self._rows[i][(self._first[i] + self.epoch) % len(self._rows[i])] for i in prompts]

    def take(self, count: int) -> list[int]:
        """The next `count` indices."""
        taken: list[int] = []
        while len(taken) < count:
            if self.position == len(self._visits):
                self.epoch, self.position = self.epoch + 1, 0
                self._visits = self._draw()
            part = self._visits[self.position : self.position + count - len(taken)]
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
            ValueError: when it belongs to another number of rows, seed or store.
        """
        for name, found in (("num_rows", self.num_rows), ("seed", self.seed), ("store", self.store)):
            if state[name] != found:
                raise ValueError(f"the saved order has {name} {short(state[name])}, this run has {short(found)}")
        self.epoch, self.position = state["epoch"], state["position"]
        self._visits = self._draw()
