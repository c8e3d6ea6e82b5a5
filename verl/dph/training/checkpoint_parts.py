"""Our file in a checkpoint, dph_state.json: the state of each part of a run, by name.

The check before Ray starts and the trainer call the same `load`, so that the trainer loads what the check accepts.
"""

import json
from pathlib import Path

from rl.common import atomic_write
from rl.common.errors import UserError
from rl.data.training_run import STATE
from verl.dph.pef.visit_order import RehearsalOrder
from verl.dph.training.pef_feed import PefFeed


def parts_of(feed: PefFeed | None) -> dict[str, RehearsalOrder]:
    """The parts of a run that have state, by their names in the file."""
    stored = {} if feed is None else {"order": feed.pef, "anchor_order": feed.anchor}
    return {name: rows.order for name, rows in stored.items() if rows is not None}


def save(checkpoint: Path, parts: dict[str, RehearsalOrder]) -> None:
    """Write the file atomically, unless there are no parts."""
    if parts:
        state = {name: part.state_dict() for name, part in parts.items()}
        atomic_write.write_text(checkpoint / STATE, json.dumps(state))


def load(checkpoint: Path, parts: dict[str, RehearsalOrder]) -> None:
    """Restore each part from a checkpoint.

    Args:
        checkpoint: global_step_N.

    Raises:
        UserError: the file is missing or lacks a part, or a part's state belongs to another store or setting.
    """
    if not parts:
        return
    path = checkpoint / STATE
    try:
        state = json.loads(path.read_text())
        for name, part in parts.items():
            part.load_state_dict(state[name])
    except FileNotFoundError:
        raise UserError(
            f"{path} is missing: the checkpoint was written with sft_loss_mode=none; start another run "
            "(trainer.default_local_dir) or continue with sft_loss_mode=none."
        ) from None
    except KeyError as part:
        raise UserError(
            f"{path} has no {part}: another version of DPH-RL wrote it; resume with that version, or start another run."
        ) from None
    except ValueError as error:
        raise UserError(
            f"{path} does not fit this run: {error}; resume with the same store, length limits and sft_seed."
        ) from error
