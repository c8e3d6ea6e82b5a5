"""A pipeline of programs: each stage runs once, shows its progress, and is skipped when nothing that decides it
changed.

A stage is done when its mark, OUT/stages/<name>.json, carries the hash of its command, of its settings and of the
stages before it. A stage that was interrupted keeps its outputs and continues them; one whose hash changed starts from
nothing.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from tqdm import tqdm

from rl.common.errors import UserError
from rl.demo.stage_marks import read_mark, settings_hash, write_mark

POLL_SECONDS = 0.5
# How often a bar is drawn where it does not go to a terminal but into a log.
LOG_SECONDS = 15.0
# How often memory is measured: it takes about a tenth of a second of a core.
MEMORY_SECONDS = 10.0
# How long a program may take to end after SIGTERM before it is killed.
GRACE_SECONDS = 15


@dataclass(frozen=True)
class Stage:
    """One program.

    Attributes:
        name: of its mark and log file.
        title: what a person reads.
        command: argv.
        environment: variables that decide its result, beside the caller's.
        seconds: expected on two cores; the bar's length where there is nothing to count.
        outputs: files and folders that are its own: deleted before it starts from nothing.
        total, count: for a bar that counts: how many there will be, and how many there are now.
        needs: names of the stages whose results it reads.
    """

    name: str
    title: str
    command: Sequence[str]
    seconds: float
    environment: dict[str, str] = field(default_factory=dict)
    outputs: Sequence[Path] = ()
    total: int | None = None
    count: Callable[[], int] | None = None
    needs: Sequence[str] = ()


class Pipeline:
    """Runs stages into one folder.

    Args:
        out: the folder; marks go to out/stages, logs to out/logs.
        environment: variables for every stage that decide nothing, such as an address.
    """

    def __init__(self, out: Path, environment: dict[str, str]):
        self.out, self.environment = out, environment
        self.hashes: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self.peak_memory = 0  # bytes in use by the pipeline's programs together, as sampled
        for name in ("stages", "logs"):
            (out / name).mkdir(parents=True, exist_ok=True)

    def run(self, stage: Stage) -> None:
        """Run a stage unless it is done.

        Raises:
            UserError: with the sentence of the program that failed and the path of its log.
        """
        self.run_chains([[stage]], at_once=1)

    def run_chains(self, chains: Sequence[Sequence[Stage]], *, at_once: int) -> None:
        """Run chains of stages side by side: a chain's stages one after the other, those that are done not again.

        Args:
            chains: each stage needs only stages of its own chain, or those that ran before.
            at_once: programs at a time.

        Raises:
            UserError: as `run`. The other programs are ended then, and go on where they were in the next run.
        """
        waiting, running, measured = [list(chain) for chain in chains], [], 0.0
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    chain = waiting.pop(0)
                    if program := self._next_of(chain, {other.position for other, _ in running}):
                        running.append((program, chain))
                if not running:
                    continue
                time.sleep(POLL_SECONDS)
                for program, chain in list(running):
                    if program.process.poll() is None:
                        program.show()
                        continue
                    running.remove((program, chain))
                    self._end(program)
                    waiting.insert(0, chain)
                if time.monotonic() - measured >= MEMORY_SECONDS:
                    measured = time.monotonic()
                    memory = sum(_memory(program.process.pid) for program, _ in running)
                    self.peak_memory = max(self.peak_memory, memory)
        finally:
            for program, _ in running:
                program.bar.close()
                stop(program.process)

    def _next_of(self, chain: list[Stage], taken: set[int]) -> "_Running | None":
        """The chain's next stage that is not done, under way; None at the chain's end."""
        while chain:
            stage = chain.pop(0)
            if not self._is_done(stage):
                position = next(place for place in range(len(taken) + 1) if place not in taken)
                return _Running(stage, self._start(stage), position)
        return None

    def _end(self, program: "_Running") -> None:
        """Marks a stage whose program has ended as done."""
        try:
            if program.process.returncode:
                raise UserError(self._failure(program.stage))
            self._finish(program)
        finally:
            program.bar.close()

    def _identity(self, stage: Stage) -> dict:
        return {
            "command": list(stage.command),
            "environment": dict(stage.environment),
            "needs": {name: self.hashes[name] for name in stage.needs},
        }

    def _mark(self, stage: Stage, kind: str = "") -> Path:
        return self.out / "stages" / f"{stage.name}{kind}.json"

    def log(self, stage: Stage) -> Path:
        return self.out / "logs" / f"{stage.name}.log"

    def _is_done(self, stage: Stage) -> bool:
        self.hashes[stage.name] = settings_hash(self._identity(stage))
        mark = read_mark(self._mark(stage))
        if mark is None or mark["hash"] != self.hashes[stage.name] or not all(path.exists() for path in stage.outputs):
            return False
        seconds = self._mark(stage, ".seconds")
        self.seconds[stage.name] = json.loads(seconds.read_text())["seconds"] if seconds.exists() else 0.0
        sys.stderr.write(f"{stage.title}: done before, skipped\n")
        return True

    def _start(self, stage: Stage) -> subprocess.Popen:
        self._mark(stage).unlink(missing_ok=True)
        started = self._mark(stage, ".started")
        mark = read_mark(started)
        if mark is None or mark["hash"] != self.hashes[stage.name]:
            for path in stage.outputs:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            write_mark(started, self._identity(stage))
        with open(self.log(stage), "wb") as log:
            # A session of its own, so that all it starts can be ended together.
            return subprocess.Popen(
                stage.command,
                env=os.environ | self.environment | stage.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _finish(self, program: "_Running") -> None:
        stage = program.stage
        program.bar.n = program.bar.total
        program.bar.refresh()
        self.seconds[stage.name] = time.monotonic() - program.started
        self._mark(stage, ".seconds").write_text(json.dumps({"seconds": self.seconds[stage.name]}))
        write_mark(self._mark(stage), self._identity(stage))
        self._mark(stage, ".started").unlink()

    def _failure(self, stage: Stage) -> str:
        text = self.log(stage).read_text(errors="replace")
        sentences = re.findall(r"^Error: (.+)$", text, re.MULTILINE)
        lines = [line for line in text.splitlines() if line.strip()]
        cause = sentences[-1] if sentences else (lines[-1][:300] if lines else "it printed nothing")
        return f"{stage.title} failed: {cause} (log: {self.log(stage)})"


class _Running:
    """A program under way, and its bar, in the line `position` below the first."""

    def __init__(self, stage: Stage, process: subprocess.Popen, position: int):
        self.stage, self.process, self.position, self.started = stage, process, position, time.monotonic()
        counted = stage.total is not None
        self.bar = tqdm(
            total=stage.total if counted else round(stage.seconds),
            desc=stage.title,
            unit="" if counted else "s",
            smoothing=0.1,
            position=position,
            bar_format=None if counted else "{l_bar}{bar}| about {n:.0f} of {total} s",
        )
        self.shown = 0.0
        self.show()

    def show(self) -> None:
        """Move the bar: by what there is to count, else by the clock, never to the end before the end."""
        reached = self.stage.count() if self.stage.count else time.monotonic() - self.started
        self.bar.n = min(reached, self.bar.total - (0 if self.stage.count else 1))
        if time.monotonic() - self.shown >= (POLL_SECONDS if sys.stderr.isatty() else LOG_SECONDS):
            self.shown = time.monotonic()
            self.bar.refresh()


def stop(process: subprocess.Popen) -> None:
    """End a program and everything that it started, Ray's processes among them."""
    if process.poll() is not None:
        return
    family = _family(process.pid)
    for number, seconds in ((signal.SIGINT, GRACE_SECONDS), (signal.SIGKILL, GRACE_SECONDS)):
        for member in family:
            try:
                member.send_signal(number)
            except psutil.NoSuchProcess:
                continue
        _, family = psutil.wait_procs(family, timeout=seconds)
        if not family:
            break
    process.wait()


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _memory(pid: int) -> int:
    """Bytes of a program and its children; pages that they share are counted once (PSS)."""
    total = 0
    for member in _family(pid):
        try:
            total += member.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total
