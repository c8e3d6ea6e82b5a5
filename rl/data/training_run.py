"""Training runs among `evaluate.models`: their earlier checkpoints and their logs.

A run is named by its folder, by a checkpoint of it (global_step_N: what came later does not count) or by the actor
folder in that.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from rl.common.errors import UserError

# What verl names the newest checkpoint in (trainer.default_local_dir).
NEWEST = "latest_checkpointed_iteration.txt"
ALL: Final = "all"
# Where verl's file logger writes, below the run (verl/dph/training/tracking.py).
LOGS = "metrics"
# What the run has reached (verl/dph/training/run_record.py), and what it printed (rl/common/console_log.py).
RECORD, CONSOLE = "dph_run.json", "log.txt"

_CHECKPOINT = re.compile(r"global_step_(\d+)")


@dataclass(frozen=True)
class Run:
    """A training run up to a step.

    Attributes:
        folder: with global_step_N in it.
        step: of the checkpoint that is the model.
    """

    folder: Path
    step: int

    @classmethod
    def of(cls, model: str) -> "Run | None":
        """The run that a model of `evaluate.models` names; None for every other folder.

        Raises:
            UserError: the run does not say which checkpoint is its newest.
        """
        folder = Path(model).expanduser()
        if (folder / NEWEST).is_file():
            newest = (folder / NEWEST).read_text().strip()
            if not newest.isdecimal():
                raise UserError(f"{folder / NEWEST} holds {newest!r} and no training step: copy the run again.")
            return cls(folder, int(newest))
        checkpoint = folder.parent if folder.name == "actor" else folder
        named = _CHECKPOINT.fullmatch(checkpoint.name)
        return cls(checkpoint.parent, int(named[1])) if named and checkpoint.is_dir() else None

    def checkpoints(self) -> dict[int, Path]:
        """{step: folder} of the checkpoints up to `step`, ascending."""
        named = ((_CHECKPOINT.fullmatch(path.name), path) for path in self.folder.iterdir() if path.is_dir())
        found = {int(match[1]): path for match, path in named if match and int(match[1]) <= self.step}
        return dict(sorted(found.items()))

    def log(self) -> Path | None:
        """The folder of its training log, where it has one."""
        folder = self.folder / LOGS
        return folder if any(folder.glob("*.jsonl")) else None


def earlier_checkpoints(name: str, run: Run, wanted: Literal["all"] | Sequence[int]) -> dict[int, Path]:
    """{step: folder} of the checkpoints to evaluate besides the model itself.

    Args:
        name: of the model, for the error.
        wanted: training steps, or ALL.

    Raises:
        UserError: the run has no checkpoint of a step.
    """
    found = run.checkpoints()
    steps = found if wanted == ALL else wanted
    if missing := [step for step in steps if step not in found]:
        raise UserError(
            f"evaluate.checkpoints names step {missing[0]}, but {name}, the run {run.folder}, has checkpoints of the "
            f"steps {', '.join(map(str, found))} up to {run.step}: name some of these, or write {ALL}; training keeps "
            "trainer.max_actor_ckpt_to_keep of them."
        )
    return {step: found[step] for step in sorted(set(steps)) if step != run.step}
