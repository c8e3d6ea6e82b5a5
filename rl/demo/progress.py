"""The progress of a pipeline: bars on a terminal; in a log, a line when a stage starts, each minute and when it ends.

    03:34 [6/10] Training GRPO  step 36/80  reward .76  left ~3 min

A stage's rate is measured from its first step, without its start-up.
"""

import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from rl.common.text import duration
from rl.data.training_run import LOGS

if TYPE_CHECKING:
    from rl.demo.stages import Stage

# The time between two lines of a stage in a log.
LINE_SECONDS = 60.0
# The time between two counts, because counting reads files.
COUNT_SECONDS = 1.0
# The share of the pipeline that must be done before the rest is estimated.
SHARE_KNOWN = 0.1


class StageProgress:
    """A running stage: `share`, 0 to 1, is done, and `text` says so with an estimate of the rest."""

    def __init__(self, stage: "Stage"):
        self.stage = stage
        self.started = self.said = time.monotonic()
        self.share, self.text = 0.0, "starting"
        self._at_start = stage.count()[0] if stage.count else 0
        self._first: tuple[float, int] | None = None  # the time of the first new count, and the count

    def look(self, now: float) -> None:
        """Count the stage's progress; a stage without counts is estimated by time."""
        total, expected = self.stage.total, self.stage.seconds
        if self.stage.count is None or total is None:
            self.share = min((now - self.started) / expected, 0.99)
            self.text = f"{duration(round(now - self.started))} of about {duration(expected)}"
            return
        reached, self.text = self.stage.count()
        self.share = min(reached / total, 1.0)
        if self._first and reached > self._first[1]:
            since, done = self._first
            self.text += f"  left ~{duration(round((now - since) / (reached - done) * (total - reached)))}"
        elif self._first is None and reached != self._at_start:  # fewer, where training resumed from its checkpoint
            self._first = now, reached


class Progress:
    """All stages of a run, numbered in this order; a context manager."""

    def __init__(self, stages: Sequence["Stage"]):
        self._numbers = {stage.name: f"[{number}/{len(stages)}]" for number, stage in enumerate(stages, 1)}
        self._ended, self._expected = 0, sum(stage.seconds for stage in stages)
        self._skipped = self._done = 0.0  # expected seconds of ended stages
        self._running: dict[str, tuple[StageProgress, tqdm | None]] = {}
        self._started = self._looked = time.monotonic()
        self._whole = _bar(f"All {len(stages)} stages") if sys.stderr.isatty() else None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        for bar in (*(bar for _, bar in self._running.values()), self._whole):
            if bar is not None:
                bar.close()

    def start(self, stage: "Stage", how: str = "starts", reason: str = "") -> None:
        """A stage starts or continues; or it starts again for a reason, which is said on a terminal too."""
        if self._whole is None or reason:
            self._say(stage, f"starts again ({reason})" if reason else how)
        bar = _bar(f"{self._numbers[stage.name]} {stage.title}") if self._whole is not None else None
        self._running[stage.name] = StageProgress(stage), bar

    def end(self, stage: "Stage") -> None:
        running, bar = self._running.pop(stage.name)
        if bar is not None:
            bar.close()
        self._ended, self._done = self._ended + 1, self._done + stage.seconds
        self._say(stage, f"done in {clock(time.monotonic() - running.started)}")

    def skip(self, stage: "Stage") -> None:
        self._ended, self._skipped = self._ended + 1, self._skipped + stage.seconds
        self._say(stage, "already done, skipped")

    def update(self) -> None:
        """Draw the bars, or write the lines that are due; call it often."""
        now = time.monotonic()
        if now - self._looked < COUNT_SECONDS:
            return
        self._looked = now
        for running, bar in self._running.values():
            running.look(now)
            if bar is not None:
                _draw(bar, running.share, running.text)
            elif now - running.said >= LINE_SECONDS:
                running.said = now
                self._say(running.stage, running.text)
        if self._whole is not None:
            _draw(self._whole, *self._of_whole(now))

    def _of_whole(self, now: float) -> tuple[float, str]:
        """The whole run's share and text, in which stages weigh their expected seconds."""
        done = self._done + sum(running.share * running.stage.seconds for running, _ in self._running.values())
        to_do = self._expected - self._skipped
        text = f"{clock(now - self._started)}  {self._ended} done"
        if done > SHARE_KNOWN * to_do:
            text += f"  left ~{duration(round((now - self._started) / done * (to_do - done)))}"
        return (self._skipped + done) / self._expected, text

    def _say(self, stage: "Stage", text: str) -> None:
        line = f"{clock(time.monotonic() - self._started)} {self._numbers[stage.name]} {stage.title}  {text}"
        tqdm.write(line, file=sys.stderr)


def clock(seconds: float) -> str:
    """Minutes and seconds, such as 03:34."""
    return f"{int(seconds) // 60:02}:{int(seconds) % 60:02}"


def _bar(name: str) -> tqdm:
    return tqdm(total=1.0, desc=name, leave=False, dynamic_ncols=True, bar_format="{desc}")


def _draw(bar: tqdm, share: float, text: str) -> None:
    bar.n = min(share, 1.0)
    bar.bar_format = "{desc} {percentage:3.0f}%|{bar:12}| " + text
    bar.refresh()


def samples_drawn(files: Iterable[Path], total: int) -> tuple[int, str]:
    """How many samples there are, and how many of how many."""
    drawn = sum(path.read_bytes().count(b"\n") for path in files if path.exists())
    return drawn, f"sample {drawn:,}/{total:,}"


def steps_trained(run: Path, total: int) -> tuple[int, str]:
    """The last step that a run has logged, with its reward; a resumed run logs into another file."""
    step, reward = 0, ""
    for part in sorted((run / LOGS).glob("*.jsonl"), reverse=True):
        with open(part, "rb") as file:
            file.seek(max(0, os.path.getsize(part) - 65_536))
            rows = [line for line in file.read().splitlines() if line.startswith(b'{"step"') and line.endswith(b"}}")]
        if rows:
            row = json.loads(rows[-1])
            step, reward = row["step"], f"{row['data']['critic/score/mean']:.2f}".removeprefix("0")
            break
    return step, f"step {step}/{total}" + (f"  reward {reward}" if reward else "")
