"""A resumable pipeline of programs: a stage is skipped if it is done, and continued if it was interrupted.

OUT/stages/<name>.json holds the hash of a stage's command, its settings and the stages before it, and once it is done
its time. A stage with the same hash that is not done keeps its outputs and continues; with another hash, or if a
finished stage lacks an output, it starts from scratch.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tqdm import tqdm

from rl.common.errors import UserError
from rl.common.processes import end_process_tree, memory_in_use
from rl.demo.stage_marks import read_mark, settings_hash, write_mark

POLL_SECONDS = 0.5
# How often a bar is drawn if stderr is not a terminal but a log.
LOG_SECONDS = 15.0
# Measuring memory takes about a tenth of a second of a core.
MEMORY_SECONDS = 10.0


@dataclass(frozen=True)
class Stage:
    """One program.

    Attributes:
        name: of its mark and log file.
        title: shown to the user.
        command: argv.
        seconds: expected on two cores; the bar's length if there is nothing to count.
        environment: variables that decide its result, beside the caller's.
        outputs: files and folders that it owns: deleted before it starts from scratch.
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
        environment: variables for every stage that do not affect results, such as an address.
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
            UserError: with the error of the program that failed and the path of its log.
        """
        self.run_chains([[stage]], at_once=1)

    def run_chains(self, chains: Sequence[Sequence[Stage]], *, at_once: int) -> None:
        """Run chains of stages in parallel, each chain's stages in order, except those that are done.

        Args:
            chains: a stage may need stages of its own chain, and those that ran before.
            at_once: programs at a time.

        Raises:
            UserError: as `run`. The other programs are ended then, and continue in the next run.
        """
        waiting, measured = [list(chain) for chain in chains], 0.0
        running: list[tuple[_Program, list[Stage]]] = []
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    chain = waiting.pop(0)
                    if program := self._next_of(chain):
                        running.append((program, chain))
                time.sleep(POLL_SECONDS if running else 0)
                for program, chain in list(running):
                    if program.is_running():
                        continue
                    running.remove((program, chain))
                    self._end(program)
                    waiting.insert(0, chain)
                if time.monotonic() - measured >= MEMORY_SECONDS:
                    measured = time.monotonic()
                    memory = sum(memory_in_use(program.process.pid) for program, _ in running)
                    self.peak_memory = max(self.peak_memory, memory)
        finally:
            for program, _ in running:
                program.bar.close()
                end_process_tree(program.process)

    def log(self, stage: Stage) -> Path:
        return self.out / "logs" / f"{stage.name}.log"

    def _next_of(self, chain: list[Stage]) -> "_Program | None":
        """Start the chain's next stage that is not done; None at the chain's end."""
        while chain:
            stage = chain.pop(0)
            if not self._is_done(stage):
                return _Program(stage, self._start(stage))
        return None

    def _end(self, program: "_Program") -> None:
        stage = program.stage
        if program.process.returncode:
            program.bar.close()
            raise UserError(self._failure(stage))
        program.finish()
        self.seconds[stage.name] = time.monotonic() - program.started
        write_mark(self._mark_path(stage), self._identity(stage), seconds=self.seconds[stage.name])

    def _identity(self, stage: Stage) -> dict:
        return {
            "command": list(stage.command),
            "environment": dict(stage.environment),
            "needs": {name: self.hashes[name] for name in stage.needs},
        }

    def _mark_path(self, stage: Stage) -> Path:
        return self.out / "stages" / f"{stage.name}.json"

    def _mark(self, stage: Stage) -> dict | None:
        """The stage's mark if it belongs to these settings."""
        mark = read_mark(self._mark_path(stage))
        return mark if mark is not None and mark["hash"] == self.hashes[stage.name] else None

    def _is_done(self, stage: Stage) -> bool:
        self.hashes[stage.name] = settings_hash(self._identity(stage))
        mark = self._mark(stage)
        if mark is None or "seconds" not in mark or not all(path.exists() for path in stage.outputs):
            return False
        self.seconds[stage.name] = mark["seconds"]
        sys.stderr.write(f"{stage.title}: already done, skipped\n")
        return True

    def _start(self, stage: Stage) -> subprocess.Popen:
        mark = self._mark(stage)
        if mark is None or "seconds" in mark:
            # Without a mark, outputs that are half deleted belong to no settings.
            self._mark_path(stage).unlink(missing_ok=True)
            for path in stage.outputs:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            write_mark(self._mark_path(stage), self._identity(stage))
        with open(self.log(stage), "wb") as log:
            # In a session of its own, so that a Ctrl-C reaches it through end_process_tree only.
            return subprocess.Popen(
                stage.command,
                env=os.environ | self.environment | stage.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _failure(self, stage: Stage) -> str:
        text = self.log(stage).read_text(errors="replace")
        sentences = re.findall(r"^Error: (.+)$", text, re.MULTILINE)
        lines = [line for line in text.splitlines() if line.strip()]
        cause = sentences[-1] if sentences else (lines[-1][:300] if lines else "it printed nothing")
        return f"{stage.title} failed: {cause} (log: {self.log(stage)})"


class _Program:
    """A running program and its bar."""

    def __init__(self, stage: Stage, process: subprocess.Popen):
        self.stage, self.process, self.started = stage, process, time.monotonic()
        counts = stage.count is not None
        self.bar = tqdm(
            total=stage.total if counts else round(stage.seconds),
            desc=stage.title,
            unit="" if counts else "s",
            smoothing=0.1,
            bar_format=None if counts else "{l_bar}{bar}| about {n:.0f} of {total} s",
        )
        self._drawn = self.started

    def is_running(self) -> bool:
        """Whether it still runs; if so, its bar moves: by what there is to count, else by the clock up to the end."""
        if self.process.poll() is not None:
            return False
        if time.monotonic() - self._drawn >= (POLL_SECONDS if sys.stderr.isatty() else LOG_SECONDS):
            self._drawn = time.monotonic()
            reached = self.stage.count() if self.stage.count else min(self._drawn - self.started, self.bar.total - 1)
            self.bar.n = min(reached, self.bar.total)
            self.bar.refresh()
        return True

    def finish(self) -> None:
        self.bar.n = self.bar.total
        self.bar.refresh()
        self.bar.close()
