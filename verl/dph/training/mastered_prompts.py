"""D_pef that lives (data.sft_refresh): what training has mastered is rehearsed instead of explored, and back when lost.

A D_exp prompt whose groups are all correct teaches GRPO nothing. Every data.sft_refresh steps such prompts leave
exploration, and their last group joins the rehearsal: responses of the policy that mastered them, with that policy's
log-probs, which the training step has computed (old_log_probs). All n are correct, so they are a plain sample of that
policy. They lie in a second store of their own beside the checkpoint (FILE); the D_pef store stays as it is. The
trainer's part is in living_pef.py.
"""

import json
from collections.abc import Sequence, Set
from pathlib import Path
from typing import NamedTuple

import numpy as np
from omegaconf import DictConfig

from rl.common.errors import UserError
from verl.dph.pef.store import Row, Store

FILE = "dph_mastered.pt"


class Group(NamedTuple):
    """A prompt's responses in one training step, all correct: its rows, with the log-probs of that step's policy."""

    step: int
    rows: list[Row]


class MasteredPrompts:
    """Which prompts are explored and which are rehearsed; both change in `refresh` alone.

    Args:
        explored: ids of D_exp, all of data.train_files.
        groups: so many all-correct groups in a row make a prompt mastered.
        capacity: prompts that are rehearsed at most; the oldest go back to exploration. Less than D_exp by a step's
            prompts, so that a step always finds enough to explore.
    """

    def __init__(self, explored: Set[int | str], *, groups: int, capacity: int):
        self.explored, self.groups, self.capacity = explored, groups, capacity
        self.streaks: dict[int | str, int] = {}  # all-correct groups in a row
        self.rehearsed: dict[int | str, Group] = {}  # the oldest first
        self.returned: list[int | str] = []  # D_pef prompts that are explored again
        # Until the next refresh:
        self.mastered: dict[int | str, Group] = {}
        self.lost: list[int | str] = []

    @classmethod
    def of_run(cls, data: DictConfig, explored: Set[int | str], store: Store) -> "MasteredPrompts":
        """
        Args:
            data: verl's settings of that name.
            store: D_pef, of which at least half of what is rehearsed remains.

        Raises:
            UserError: D_exp has no prompt more than a step takes.
        """
        capacity = min(len({row.id for row in store.rows}), len(explored) - data.train_batch_size)
        if capacity < 1:
            raise UserError(
                f"data.sft_refresh={data.sft_refresh} lets prompts rest from exploration, and data.train_files has "
                f"{len(explored)}, which a step of data.train_batch_size={data.train_batch_size} needs: lower the "
                "batch size, or use sft_refresh=0."
            )
        return cls(explored, groups=data.sft_refresh_groups, capacity=capacity)

    @property
    def rows(self) -> list[Row]:
        """What is rehearsed beside D_pef."""
        return [row for group in self.rehearsed.values() for row in group.rows]

    def observe(self, id: int | str, correct: Sequence[bool], n: int, group: Group) -> None:
        """A prompt's responses in a step. A group of which rollouts failed ends no streak and adds to none.

        Args:
            correct: of the responses that were scored, n of them if no rollout failed.
            group: those of them that can be rehearsed.
        """
        if not all(correct):
            self.streaks.pop(id, None)
            self.mastered.pop(id, None)
        elif len(correct) == n:
            self.streaks[id] = self.streaks.get(id, 0) + 1
            if self.streaks[id] >= self.groups and group.rows:
                self.mastered[id] = group

    def refresh(self) -> bool:
        """Let what was mastered and lost since the last refresh change places; whether what is rehearsed changed."""
        before = list(self.rehearsed)
        for id in self.lost:
            self.rehearsed.pop(id, None)
            if id not in self.explored and id not in self.returned:
                self.returned.append(id)
        for id, group in self.mastered.items():
            self.rehearsed[id] = group
            del self.streaks[id]
        for id in list(self.rehearsed)[: max(0, len(self.rehearsed) - self.capacity)]:
            del self.rehearsed[id]
        self.returned = [id for id in self.returned if id not in self.rehearsed]
        self.mastered, self.lost = {}, []
        return before != list(self.rehearsed)

    def returned_prompt(self, seed: Sequence[int]) -> int | str | None:
        """The D_pef prompt that takes the place of the next D_exp prompt, if one does.

        By chance and as often as a D_exp prompt comes up; `seed` decides, so that a resumed run draws the same.
        """
        if not self.returned:
            return None
        explored = len(self.returned) + len(self.explored - self.rehearsed.keys())
        place = np.random.default_rng(seed).integers(explored)
        return self.returned[place] if place < len(self.returned) else None

    def sample(self, count: int, seed: Sequence[int]) -> list[int | str]:
        """At most so many of the D_exp prompts that are rehearsed."""
        ids = [id for id in self.rehearsed if id in self.explored]
        return [ids[i] for i in sorted(np.random.default_rng(seed).permutation(len(ids))[:count])]

    def metrics(self) -> dict[str, int]:
        return {
            "dph/mastered_prompts": len(self.rehearsed),
            "dph/mastered_rows": len(self.rows),
            "dph/returned_prompts": len(self.returned),
        }

    def save(self, folder: Path) -> None:
        """Write folder/FILE, rows and all else, in one step.

        It has no model_hash, so that no run takes it for its D_pef store: its log-probs are not the initial policy's.
        """
        groups = self.rehearsed | self.mastered
        state = {
            "streaks": list(self.streaks.items()),
            "steps": [(id, group.step) for id, group in groups.items()],
            "rehearsed": list(self.rehearsed),
            "returned": self.returned,
            "lost": self.lost,
        }
        meta = {"kind": "responses of the policy in training", "state": json.dumps(state)}
        Store(dict(meta), [row for group in groups.values() for row in group.rows]).save(str(folder / FILE))

    def load(self, folder: Path) -> None:
        """Go on where `save` left off; a checkpoint without the file was trained without any of this."""
        if not (folder / FILE).exists():
            return
        store = Store.load(str(folder / FILE))
        state = json.loads(str(store.meta["state"]))
        groups = {id: Group(step, []) for id, step in state["steps"]}
        for row in store.rows:
            groups[row.id].rows.append(row)
        self.streaks = dict(state["streaks"])
        self.rehearsed = {id: groups.pop(id) for id in state["rehearsed"]}
        self.mastered = groups
        self.returned, self.lost = state["returned"], state["lost"]


def rehearsed_rows(folder: Path) -> list[Row]:
    """The rows that a checkpoint rehearses beside D_pef."""
    prompts = MasteredPrompts(set(), groups=1, capacity=0)
    prompts.load(folder)
    return prompts.rows
