"""What a pipeline says of its stages, on a terminal and in a log, by a clock of the test's own."""

import io
import json
import re

import pytest

from rl.demo import stages
from rl.demo.stages import Progress, Running, Stage, samples_drawn, steps_trained


class Stderr(io.StringIO):
    def __init__(self, terminal: bool):
        super().__init__()
        self.isatty = lambda: terminal


@pytest.fixture
def clock(monkeypatch):
    """[now]; change it to let time pass."""
    now = [1000.0]
    monkeypatch.setattr(stages.time, "monotonic", lambda: now[0])
    return now


def training(steps: list[int]) -> Stage:
    return Stage("train", "Training GRPO", [], 200, total=80, count=lambda: (steps[0], f"step {steps[0]}/80"))


def run(clock, monkeypatch, terminal: bool) -> str:
    """A skipped stage, one that goes by the clock for 5 s, and a training: 40 s of start-up, then 2 s a step."""
    stderr, steps = Stderr(terminal), [0]
    monkeypatch.setattr("sys.stderr", stderr)
    task, split, train = Stage("task", "Task", [], 10), Stage("split", "Split", [], 8), training(steps)
    with Progress([task, split, train], at_once=2) as shown:
        shown.skip(task)
        shown.start(split)
        shown.start(train, "continues")
        for second in range(1, 202):
            clock[0] = 1000.0 + second
            steps[0] = max(0, min(80, (second - 40) // 2))
            if second == 5:
                shown.end(split)
            shown.update()
        shown.end(train)
    return stderr.getvalue()


def test_a_log_has_a_line_at_the_start_each_minute_and_at_the_end(clock, monkeypatch):
    # The first step was seen at 42 s: from there on it is 2 s a step, whatever came before.
    assert run(clock, monkeypatch, terminal=False).splitlines() == [
        "3 stages, about 01:49 on two idle cores",
        "00:00 (1/3 done) Task  already done, skipped",
        "00:00 (1/3 done) Split  starts",
        "00:00 (1/3 done) Training GRPO  continues",
        "00:05 (2/3 done) Split  done in 00:05",
        "01:00 (2/3 done) Training GRPO  step 10/80  left 02:20",
        "02:00 (2/3 done) Training GRPO  step 40/80  left 01:20",
        "03:00 (2/3 done) Training GRPO  step 70/80  left 00:20",
        "03:21 (3/3 done) Training GRPO  done in 03:21",
    ]


def test_a_terminal_has_a_bar_for_the_whole_with_the_running_stages(clock, monkeypatch):
    drawn = run(clock, monkeypatch, terminal=True)
    assert "; Split: 00:04 of about 00:08" in drawn
    # 10 + 8 + 100 of 218 expected seconds; the first 10 of them were done before; 108 s took 120.
    assert re.search(r" 54%\|[^|]+\| 02:00  2/3 done  left 01:51; Training GRPO: step 40/80  left 01:20", drawn)
    assert "00:05 (2/3 done) Split  done in 00:05" in drawn and "02:00 (2/3 done)" not in drawn


@pytest.mark.parametrize(
    ("first", "looks"),
    [
        # A run that continues at step 60 shows no estimate before its first step, and then one from its own steps.
        (60, [(1050, 60, ""), (1060, 61, ""), (1063, 62, "  left 00:54")]),
        # One that was killed after its checkpoint repeats steps, and has an estimate from them.
        (69, [(1050, 61, ""), (1053, 62, "  left 00:54")]),
    ],
)
def test_what_was_done_before_is_not_in_the_rate(clock, first, looks):
    steps = [first]
    stage = Running(training(steps))
    for now, step, left in looks:
        steps[0] = step
        stage.look(now)
        assert stage.text == f"step {step}/80{left}"
    assert stage.share == 62 / 80


def test_what_is_there_is_counted_while_it_is_written(tmp_path):
    run = tmp_path / "runs" / "grpo"
    assert steps_trained(run, 80) == (0, "step 0/80")
    log = run / "metrics" / "20261122-163823.jsonl"
    log.parent.mkdir(parents=True)
    rows = [json.dumps({"step": step, "data": {"critic/score/mean": step / 40}}) for step in range(1, 38)]
    log.write_text("\n".join(rows)[:-9])  # the last line is being written
    assert steps_trained(run, 80) == (36, "step 36/80  reward .90")
    # A run that continues at a checkpoint logs into a file of its own.
    resumed = log.with_name("20261122-170000.jsonl")
    resumed.touch()
    assert steps_trained(run, 80)[0] == 36
    resumed.write_text(rows[19] + "\n")
    assert steps_trained(run, 80)[0] == 20
    samples = tmp_path / "0.jsonl"
    assert samples_drawn([samples], 3072) == (0, "sample 0/3,072")
    samples.write_text("{}\n" * 1500 + "{")
    assert samples_drawn([samples], 3072) == (1500, "sample 1,500/3,072")
