"""A resumable pipeline of programs: a stage is skipped if it is done, and continued if it was interrupted.

Stages run side by side, each as soon as those that it needs are done. A line is written when a stage starts, when it
ends, and each minute with the last line of its log:

    0:03:34 (5/10 done) train_grpo  step:36 reward 0.7578  length 27.89  seconds 3.266

OUT/stages/<name>.json is a stage's mark: the hash of its command, its settings and the stages before it, and once it is
done its time. A stage with the same hash that is not done keeps its outputs and continues. It starts from scratch with
another hash, or if it is done and lacks an output; then the marks of all stages that need its outputs go too.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from rl.cluster.programs import start
from rl.common import atomic_write
from rl.common.errors import UserError, cause_in, last_line
from rl.common.processes import end_process_tree
from rl.data.json_text import loads_or_none

POLL_SECONDS = 0.5
# The time between two lines of a stage.
LINE_SECONDS = 60.0
# The parts of a stage's identity, as the reason why it starts again.
_CHANGED = {
    "command": "another command",
    "environment": "other variables",
    "settings": "other settings",
    "needs": "a stage before it has changed",
}


@dataclass(frozen=True)
class Stage:
    """One program.

    Attributes:
        name: shown to the user; its mark and its log file have it too.
        command: argv.
        environment: further variables that decide its result.
        settings: what else decides its result, JSON-serialisable.
        outputs: files and folders that it owns; they are deleted before it starts from scratch.
        needs: names of the stages whose results it reads.
    """

    name: str
    command: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict)
    settings: Any = None
    outputs: Sequence[Path] = ()
    needs: Sequence[str] = ()


@dataclass
class _Running:
    """A stage under way, when it started, and when its last line was written."""

    stage: Stage
    process: subprocess.Popen
    started: float
    said: float


class Pipeline:
    """Runs stages into one folder.

    Args:
        out: the folder; marks go to out/stages, logs to out/logs.
        environment: variables for every stage that do not change its result, such as an address.
    """

    def __init__(self, out: Path, environment: dict[str, str]):
        self.out, self.environment = out, environment
        self.hashes: dict[str, str] = {}
        self.seconds: dict[str, float] = {}  # by finished stage
        self._started, self._number = time.monotonic(), 0  # of this run, and of its stages
        for name in ("stages", "logs"):
            (out / name).mkdir(parents=True, exist_ok=True)

    def run(self, stages: Sequence[Stage], *, at_once: int = 1) -> None:
        """Run the stages that are not done, each as soon as its needs are done.

        Args:
            stages: in the order of preference where several could start.
            at_once: programs at a time.

        Raises:
            UserError: an output is somebody else's, and would be deleted; or a program failed, with its error and the
                path of its log. The other programs are ended, and continue in the next run.
        """
        if not any((self.out / "stages").iterdir()):
            for path in (path for stage in stages for path in stage.outputs if path.exists()):
                raise UserError(f"{path} exists, and nothing here has made it: name another folder, or move it away.")
        waiting, running = list(stages), list[_Running]()
        self._started, self._number = time.monotonic(), len(stages)
        try:
            while waiting or running:
                while len(running) < at_once and (
                    stage := next((of for of in waiting if self.seconds.keys() >= {*of.needs}), None)
                ):
                    waiting.remove(stage)
                    if self._is_done(stage):
                        self._say(stage, "already done, skipped")
                    else:
                        running.append(self._start(stage))
                if waiting and not running:
                    raise ValueError(f"{waiting[0].name} needs {waiting[0].needs}, and nothing makes one of them.")
                time.sleep(POLL_SECONDS if running else 0)
                now = time.monotonic()
                for of in [*running]:
                    if of.process.poll() is not None:
                        running.remove(of)
                        self._end(of, now - of.started)
                    elif now - of.said >= LINE_SECONDS:
                        of.said = now
                        self._say(of.stage, last_line(self.log(of.stage).read_text(errors="replace")))
        finally:
            for of in running:
                end_process_tree(of.process)

    def _end(self, running: _Running, seconds: float) -> None:
        stage = running.stage
        if running.process.returncode:
            raise UserError(f"{stage.name} failed: {cause_in(self.log(stage))} (log: {self.log(stage)})")
        self.seconds[stage.name] = seconds
        self._write_mark(stage, seconds=seconds)
        self._say(stage, f"done in {timedelta(seconds=round(seconds))}")

    def _say(self, stage: Stage, text: str) -> None:
        passed = timedelta(seconds=round(time.monotonic() - self._started))
        sys.stderr.write(f"{passed} ({len(self.seconds)}/{self._number} done) {stage.name}  {text}\n")

    def log(self, stage: Stage) -> Path:
        return self.out / "logs" / f"{stage.name}.log"

    def _identity(self, stage: Stage) -> dict:
        """What decides a stage's result. The paths of this interpreter and of the folder do not: it may be moved."""
        return {
            "command": ["python" if word == sys.executable else self._movable(word) for word in stage.command],
            "environment": {name: self._movable(value) for name, value in stage.environment.items()},
            "settings": stage.settings,
            "needs": {name: self.hashes[name] for name in stage.needs},
        }

    def _movable(self, text: str) -> str:
        return text.replace(str(self.out), "OUT")

    def _mark_path(self, name: str) -> Path:
        return self.out / "stages" / f"{name}.json"

    def _mark(self, name: str) -> dict | None:
        """The mark of the stage of this name, if there is one."""
        path = self._mark_path(name)
        if not path.exists():
            return None
        mark = loads_or_none(path.read_text())
        if not isinstance(mark, dict) or not {"hash", "needs"} <= mark.keys():
            raise UserError(f"{path} is not the mark of a stage: delete it to run the stage again.")
        return mark

    def _write_mark(self, stage: Stage, **more: float) -> None:
        mark = {"hash": self.hashes[stage.name], **self._identity(stage), **more}
        atomic_write.write_text(self._mark_path(stage.name), json.dumps(mark, indent=2, sort_keys=True) + "\n")

    def _is_done(self, stage: Stage) -> bool:
        identity = json.dumps(self._identity(stage), sort_keys=True)
        self.hashes[stage.name] = hashlib.sha256(identity.encode()).hexdigest()
        mark = self._mark(stage.name)
        if mark is None or mark["hash"] != self.hashes[stage.name] or "seconds" not in mark:
            return False
        if not all(path.exists() for path in stage.outputs):
            return False
        self.seconds[stage.name] = mark["seconds"]
        return True

    def _forget(self, name: str) -> None:
        """Remove the marks of a stage and of those that need it, in this run or another one."""
        # The mark goes first: a half deleted output must not count as this stage's.
        self._mark_path(name).unlink(missing_ok=True)
        for path in (self.out / "stages").glob("*.json"):
            if (mark := self._mark(path.stem)) and name in mark["needs"]:
                self._forget(path.stem)

    def _start(self, stage: Stage) -> _Running:
        mark = self._mark(stage.name)
        if mark is None or mark["hash"] != self.hashes[stage.name] or "seconds" in mark:
            now = self._identity(stage)
            changed = [words for name, words in _CHANGED.items() if mark and mark.get(name) != now[name]]
            again = f"starts again ({', '.join(changed) or 'an output is missing'})"
            self._say(stage, "starts" if mark is None else again)
            self._forget(stage.name)
            for path in stage.outputs:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
            self._write_mark(stage)
        else:
            self._say(stage, "continues")
        self.log(stage).unlink(missing_ok=True)
        process = start(stage.command, self.environment | stage.environment, self.log(stage))
        return _Running(stage, process, time.monotonic(), time.monotonic())
