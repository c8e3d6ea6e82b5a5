"""A resumable pipeline of programs: a stage is skipped if it is done, and continued if it was interrupted.

Stages run side by side, each as soon as those that it needs are done.

OUT/stages/<name>.json is a stage's mark: the hash of its command, its settings and the stages before it, the outputs
that it reads, and once it is done its time. A stage with the same mark that is not done keeps its outputs and
continues. It starts from scratch with another hash, if it is done and lacks an output, or if a stage that it needs was
made again.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rl.common import atomic_write
from rl.common.errors import UserError, cause_in
from rl.common.parent_death import end_with_parent
from rl.common.processes import end_process_tree, memory_in_use
from rl.demo.progress import Progress

POLL_SECONDS = 0.5
# The parts of a stage's identity, as the reason why it starts again.
_CHANGED = {
    "command": "another command",
    "environment": "other variables",
    "settings": "other settings",
    "needs": "a stage before it has changed",
}
# Measuring memory takes about a tenth of a second of a core.
MEMORY_SECONDS = 10.0


@dataclass(frozen=True)
class Stage:
    """One program.

    Attributes:
        name: names its mark and its log file.
        title: shown to the user.
        command: argv.
        seconds: expected on two cores, start-up included.
        environment: further variables that decide its result.
        settings: what else decides its result, JSON-serialisable.
        outputs: files and folders that it owns; they are deleted before it starts from scratch.
        total: how many steps or samples it makes; None if nothing is counted.
        count: how many there are now, and words for it.
        needs: names of the stages whose results it reads.
    """

    name: str
    title: str
    command: Sequence[str]
    seconds: float
    environment: dict[str, str] = field(default_factory=dict)
    settings: Any = None
    outputs: Sequence[Path] = ()
    total: int | None = None
    count: Callable[[], tuple[int, str]] | None = None
    needs: Sequence[str] = ()


@dataclass(frozen=True)
class _Program:
    stage: Stage
    process: subprocess.Popen
    started: float = field(default_factory=time.monotonic)


class Pipeline:
    """Runs stages into one folder.

    Args:
        out: the folder; marks go to out/stages, logs to out/logs.
        environment: variables for every stage that do not change its result, such as an address.
    """

    def __init__(self, out: Path, environment: dict[str, str]):
        self.out, self.environment = out, environment
        self.hashes: dict[str, str] = {}
        self.made: dict[str, str] = {}  # by stage: names its outputs, anew whenever it starts from scratch
        self.seconds: dict[str, float] = {}  # by finished stage
        self.peak_memory = 0  # bytes that all programs used together, as sampled
        self._measured = 0.0
        for name in ("stages", "logs"):
            (out / name).mkdir(parents=True, exist_ok=True)

    def run(self, stages: Sequence[Stage], *, at_once: int = 1) -> None:
        """Run the stages that are not done, each as soon as its needs are done.

        Args:
            stages: in the order of preference where several could start.
            at_once: programs at a time.

        Raises:
            UserError: a program failed; with its error and the path of its log. The other programs are ended, and
                continue in the next run.
        """
        waiting, running = list(stages), list[_Program]()
        with Progress(stages) as progress:
            try:
                while waiting or running:
                    while len(running) < at_once and (stage := self._next_of(waiting)):
                        waiting.remove(stage)
                        if self._is_done(stage):
                            progress.skip(stage)
                        else:
                            running.append(self._start(stage, progress))
                    if waiting and not running:
                        raise ValueError(f"{waiting[0].name} needs {waiting[0].needs}, and nothing makes one of them.")
                    time.sleep(POLL_SECONDS if running else 0)
                    for program in [program for program in running if program.process.poll() is not None]:
                        running.remove(program)
                        self._end(program)
                        progress.end(program.stage)
                    progress.update()
                    self._measure_memory(running)
            finally:
                for program in running:
                    end_process_tree(program.process)

    def log(self, stage: Stage) -> Path:
        return self.out / "logs" / f"{stage.name}.log"

    def _next_of(self, waiting: list[Stage]) -> Stage | None:
        """The first stage whose needs are done."""
        return next((stage for stage in waiting if all(name in self.seconds for name in stage.needs)), None)

    def _end(self, program: _Program) -> None:
        stage = program.stage
        if program.process.returncode:
            raise UserError(self._failure(stage))
        self.seconds[stage.name] = time.monotonic() - program.started
        self._write_mark(stage, seconds=self.seconds[stage.name])

    def _measure_memory(self, running: Sequence[_Program]) -> None:
        if time.monotonic() - self._measured >= MEMORY_SECONDS:
            self._measured = time.monotonic()
            self.peak_memory = max(self.peak_memory, sum(memory_in_use(program.process.pid) for program in running))

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

    def _mark_path(self, stage: Stage) -> Path:
        return self.out / "stages" / f"{stage.name}.json"

    def _mark(self, stage: Stage) -> dict | None:
        """The stage's mark. None if there is no mark, or if its hash differs or the outputs that it read were replaced.

        Raises:
            UserError: the file is not a mark.
        """
        path = self._mark_path(stage)
        try:
            mark = json.loads(path.read_text())
            return mark if (mark["hash"], mark["read"]) == (self.hashes[stage.name], self._read(stage)) else None
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise UserError(f"{path} is not the mark of a stage: delete it to run the stage again.") from None

    def _changed(self, stage: Stage) -> str:
        """What is not as it was when the stage was done or interrupted, in words; "" for nothing and without a mark."""
        if not self._mark_path(stage).is_file():
            return ""
        before, now = json.loads(self._mark_path(stage).read_text()), self._identity(stage)
        found = [words for name, words in _CHANGED.items() if before.get(name) != now[name]]
        if not found and "seconds" in before:
            found = ["an output is missing" if self._mark(stage) else _CHANGED["needs"]]
        return ", ".join(found)

    def _read(self, stage: Stage) -> dict[str, str]:
        """What the outputs that a stage reads are named, by the stage that made them."""
        return {name: self.made[name] for name in stage.needs}

    def _write_mark(self, stage: Stage, **more: float) -> None:
        outputs = {"made": self.made[stage.name], "read": self._read(stage)}
        mark = {"hash": self.hashes[stage.name], **self._identity(stage), **outputs, **more}
        atomic_write.write_text(self._mark_path(stage), json.dumps(mark, indent=2, sort_keys=True) + "\n")

    def _is_done(self, stage: Stage) -> bool:
        identity = json.dumps(self._identity(stage), sort_keys=True)
        self.hashes[stage.name] = hashlib.sha256(identity.encode()).hexdigest()
        mark = self._mark(stage)
        if mark is None or "seconds" not in mark or not all(path.exists() for path in stage.outputs):
            return False
        self.seconds[stage.name], self.made[stage.name] = mark["seconds"], mark["made"]
        return True

    def _start(self, stage: Stage, progress: Progress) -> _Program:
        mark, changed = self._mark(stage), self._changed(stage)
        unfinished = mark if mark is not None and "seconds" not in mark else None
        if unfinished is not None:
            self.made[stage.name] = unfinished["made"]
        else:
            self.made[stage.name] = uuid.uuid4().hex
            # The mark goes first: a half deleted output must not count as this stage's.
            self._mark_path(stage).unlink(missing_ok=True)
            for path in stage.outputs:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            self._write_mark(stage)
        progress.start(stage, "continues" if unfinished is not None else "starts", reason=changed)
        with open(self.log(stage), "wb") as log:
            # A session of its own: Ctrl-C reaches the program only through end_process_tree.
            process = subprocess.Popen(
                stage.command,
                env=os.environ | self.environment | stage.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        return _Program(stage, process)

    def _failure(self, stage: Stage) -> str:
        return f"{stage.title} failed: {cause_in(self.log(stage))} (log: {self.log(stage)})"
