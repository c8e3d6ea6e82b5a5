"""The folder of a training run: the names of its files, its checkpoints and its record.

`evaluate.models` names a run by its folder, by a checkpoint in it (global_step_N; later ones do not count) or by the
checkpoint's actor folder.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from rl.common.errors import UserError

# In the run's folder: the step of the newest checkpoint, which verl writes last, and the step of the best checkpoint
# that is kept (verl/dph/training/run_record.py).
NEWEST, BEST = "latest_checkpointed_iteration.txt", "best_checkpointed_iteration.txt"
# The folder in which verl's file logger writes (verl/dph/training/tracking.py).
LOGS = "metrics"
# The run's state (verl/dph/training/run_record.py) and its output (rl/common/console_log.py).
RECORD, CONSOLE = "dph_run.json", "log.txt"
# In a checkpoint: code, data and settings (verl/dph/training/run_manifest.py), and the state of our parts of the
# trainer (verl/dph/training/checkpoint_parts.py).
MANIFEST, STATE = "manifest.json", "dph_state.json"

# The key, among a manifest's settings, of what decides the scorer's verdicts; its value is empty if no server said it.
VERDICT = "trainer.scorer_verdict_sha256"

RECORD_FORMAT, MANIFEST_FORMAT = "dph-run/1", "dph-manifest/1"

ALL: Final = "all"

_CHECKPOINT = re.compile(r"global_step_(\d+)")


def checkpoint_folder(run: Path, step: int | str) -> Path:
    """The folder in which verl writes the checkpoint of a step."""
    return run / f"global_step_{step}"


def newest_checkpoint(run: Path) -> Path | None:
    """The newest complete checkpoint of a run's folder, which verl names in a file; None without one."""
    named = named_step(run / NEWEST)
    return None if named is None else checkpoint_folder(run, named)


def resumes_at(run: Path) -> str:
    """Where a run that is stopped now goes on, as a sentence."""
    step = named_step(run / NEWEST)
    return "There is no checkpoint yet: it starts at step 1." if step is None else f"It goes on after step {step}."


def named_step(path: Path) -> int | None:
    """The step in the file NEWEST or BEST; None without it."""
    if not path.is_file():
        return None
    named = path.read_text().strip()
    if not named.isdecimal():
        raise UserError(f"{path} holds {named!r}, not a training step: copy the run again, or write the step into it.")
    return int(named)


def step_of(checkpoint: Path) -> int | None:
    """The step of a folder global_step_N; None for another name."""
    named = _CHECKPOINT.fullmatch(checkpoint.name)
    return int(named[1]) if named else None


def read_record(run: Path) -> dict[str, Any] | None:
    """The content of dph_run.json; None without one."""
    fields = {"step": int, "total_steps": int, "validations": dict}
    return _read(run / RECORD, RECORD_FORMAT, fields, "delete it, training writes it anew")


def read_manifest(checkpoint: Path) -> dict[str, Any] | None:
    """The content of manifest.json; None without one."""
    fields = dict.fromkeys(("model", "data", "settings"), dict)
    return _read(checkpoint / MANIFEST, MANIFEST_FORMAT, fields, "delete it to resume without comparing settings")


def newest_manifest(run: Path) -> dict[str, Any] | None:
    """The manifest that was written last in a run's checkpoints; None without one."""
    manifests = sorted(run.glob(f"global_step_*/{MANIFEST}"), key=lambda path: path.stat().st_mtime)
    return read_manifest(manifests[-1].parent) if manifests else None


def _read(path: Path, format: str, fields: Mapping[str, type], advice: str) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text())
        if content["format"] == format and all(isinstance(content[name], of) for name, of in fields.items()):
            return content
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        pass
    raise UserError(f"{path} is not of the format {format}: {advice}.")


@dataclass(frozen=True)
class Run:
    """A training run up to a step.

    Attributes:
        folder: the run's folder, which has global_step_N in it.
        step: the step of the checkpoint that is the model.
    """

    folder: Path
    step: int

    @classmethod
    def of(cls, model: str) -> "Run | None":
        """The run that a model of `evaluate.models` names; None if it names another folder."""
        folder = Path(model).expanduser()
        newest = newest_checkpoint(folder)
        checkpoint = newest or (folder.parent if folder.name == "actor" else folder)
        step = step_of(checkpoint)
        if step is None or (newest is None and not checkpoint.is_dir()):
            return None
        return cls(checkpoint.parent, step)

    def checkpoints(self) -> dict[int, Path]:
        """{step: folder} of the checkpoints with weights up to `step`, ascending.

        Of a checkpoint that it no longer keeps verl deletes the folder actor alone.
        """
        steps = {step_of(path.parent): path.parent for path in self.folder.glob("global_step_*/actor")}
        return {step: steps[step] for step in sorted(step for step in steps if step is not None and step <= self.step)}

    def log(self) -> Path | None:
        """The folder of the run's training log; None without one."""
        folder = self.folder / LOGS
        return folder if any(folder.glob("*.jsonl")) else None


def earlier_checkpoints(name: str, run: Run, wanted: Literal["all"] | Sequence[int]) -> dict[int, Path]:
    """{step: folder} of the checkpoints to evaluate in addition to the model itself.

    Args:
        name: the model's name, for the error.
        wanted: training steps, or ALL.
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
