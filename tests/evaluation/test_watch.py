"""dph watch: what it says of a run, by its folder; the curves and alerts of its frame."""

import os
import re
import time

import pytest

from rl import cli
from rl.evaluation import watch as program
from rl.evaluation.run_folder import read_run
from rl.evaluation.watch import alerts, sparkline

STEPS = {
    0: {"dph/val/bird/pass@1": 0.25, "dph/val/bird/pass@2": 0.3, "dph/val/bird/pass@8": 0.5},
    1: {"critic/rewards/mean": 0.2, "dph/pass@1": 0.2, "dph/pass@2": 0.3, "dph/pass@4": 0.4, "timing_s/step": 10.0},
    2: {"critic/rewards/mean": 0.4, "dph/pass@1": 0.4, "dph/pass@2": 0.5, "dph/pass@4": 0.6, "timing_s/step": 12.0}
    | {"timing_s/testing": 8.0, "dph/kl_ref_policy": 0.00123, "dph/val/bird/pass@1": 0.5, "dph/val/bird/pass@8": 0.75},
}


def watch(capsys, folder, *options: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of dph watch."""
    try:
        code = cli.main(["watch", str(folder), *options])
    except SystemExit as end:
        code = end.code
    return code, *capsys.readouterr()


def test_a_frame_has_the_curves_and_the_time_left(made_up_run, capsys):
    run = made_up_run("run").record(0, 6).log(STEPS)
    code, out, err = watch(capsys, run.folder, "--once")
    assert watch(capsys, run.folder)[1].splitlines()[1:] == out.splitlines()[1:], "without a terminal one frame is all"
    first, heading, *rows = out.splitlines()
    assert heading.split() == ["first", "last", "step"] and len({len(row) for row in (heading, *rows)}) == 1
    # 10 s and 12 + 8 s: 15 s a step, 4 steps to go
    assert (code, err) == (0, "") and f"{run.folder}: step 2 of 6, 15 s a step, 60 s left (estimated; until " in first
    found = {title: values.split() for title, values in (re.split(r"\s{2,}", row, maxsplit=1) for row in rows)}
    assert found == {
        "Mean reward": ["▁█", "0.2", "0.4", "2"],
        "Pass@1": ["▁█", "0.2", "0.4", "2"],
        "Pass@4": ["▁█", "0.4", "0.6", "2"],
        "KL(π_ref‖π_θ) on D_pef": ["▅", "0.00123", "0.00123", "2"],
        "bird Pass@1": ["▁█", "0.25", "0.5", "2"],
        "bird Pass@8": ["▁█", "0.5", "0.75", "2"],
    }


def test_a_run_that_is_not_there_has_not_begun_or_has_ended(made_up_run, capsys, tmp_path):
    code, out, err = watch(capsys, tmp_path / "none")
    assert (code, out) == (2, "") and err.startswith(f"Error: There is no run {tmp_path / 'none'}: ")
    (tmp_path / "data").mkdir()
    assert "is not a training run: it has neither metrics/ nor dph_run.json" in watch(capsys, tmp_path / "data")[2]
    (tmp_path / "data" / "log.txt").write_text("--- 2026-01-01 00:00:00 /x/verl/dph/evaluate.py device=cpu\n")
    assert "give a run's folder, $OUTPUT_DIR/NAME of" in watch(capsys, tmp_path / "data")[2]
    (tmp_path / "global_step_6").mkdir()
    assert watch(capsys, tmp_path / "global_step_6")[2].endswith("; give the folder above it.\n")
    (tmp_path / "data" / "log.txt").write_text("--- 2026-01-01 00:00:00 /x/verl/dph/main.py device=cpu\n")
    assert "has not logged a step yet" in watch(capsys, tmp_path / "data")[1]
    begun = made_up_run("begun").record(0, 80)
    for _ in range(2):  # before the file logger, and after it has made its file
        code, out, err = watch(capsys, begun.folder)
        assert code == 0 and out.startswith(f"{begun.folder} has not logged a step yet") and len(out.splitlines()) == 1
        begun.log({})
    ended = made_up_run("ended").record(2, 2).log(STEPS)
    code, out, _ = watch(capsys, ended.folder)
    assert code == 0 and out.splitlines()[0] == f"{ended.folder} has ended: step 2 of 2."


def test_a_run_without_the_file_logger_and_a_damaged_one_are_rejected(made_up_run, capsys):
    code, _, err = watch(capsys, made_up_run("silent").record(5, 8).folder)
    assert code == 2 and "train with file among trainer.logger" in err
    damaged = made_up_run("damaged").log(STEPS)
    (damaged.folder / "dph_run.json").write_text("{}")
    code, _, err = watch(capsys, damaged.folder)
    assert code == 2 and "dph_run.json is not of the format dph-run/1: delete it" in err and len(err.splitlines()) == 1


def test_a_resumed_run_is_where_its_last_session_is(made_up_run):
    trained = "training/global_step"
    run = made_up_run("run").record(3, 9).log({step: {trained: step, "a": 1.0} for step in range(1, 7)})
    assert read_run(run.folder).step == 6
    run.log({4: {trained: 4, "a": 2.0}}, "20260102-000000")  # from the checkpoint of step 3
    found = read_run(run.folder)
    assert found.step == 4 and found.log["a"] == {1: 1.0, 2: 1.0, 3: 1.0, 4: 2.0} and not found.has_ended
    run.log({3: {"val": 1.0}}, "20260103-000000")  # so far a validation alone
    assert read_run(run.folder).step == 3 and read_run(run.folder).log["a"] == {1: 1.0, 2: 1.0, 3: 1.0}
    run.log({}, "20260103-000000")
    assert read_run(run.folder).step == 4  # the third session has logged nothing yet


def test_a_sparkline_has_the_means_of_equal_parts():
    assert sparkline([0, 7]) == "▁█" and sparkline([3, 3, 3]) == "▅▅▅"
    assert sparkline([0, 2, 3, 5, 6, 8], width=3) == "▁▅█"  # 1, 4, 7
    assert len(sparkline([*range(1000)])) == 40


def found_alerts(made_up_run, steps, name="run", total=100) -> list[str]:
    return alerts(read_run(made_up_run(name).record(0, total).log(steps).folder))


def test_one_style(made_up_run):
    def of(share):
        return {step: {"dph/style/JOIN": share, "dph/style/IN": 1 - share} for step in range(1, 4)}

    assert found_alerts(made_up_run, of(0.94), "diverse") == []
    [said] = found_alerts(made_up_run, of(0.96), "collapsed")
    assert said == "One style holds 96% of the correct responses of the last 3 steps: JOIN."


def test_retention_below_the_noise_floor_by_more_than_chance(made_up_run):
    def of(rate, prompts=100):
        return {
            0: {"dph/keep_rate": 0.9, "dph/keep_prompts": prompts},
            5: {"dph/keep_rate": rate} | {"dph/keep_prompts": prompts},
        }

    # the standard error of .9 - .8 with 100 prompts each: sqrt((.09 + .16) / 100) = .05
    assert found_alerts(made_up_run, of(0.801), "chance") == []
    [said] = found_alerts(made_up_run, of(0.79), "lost")
    assert "the keep rate is 0.79 in step 5, and was 0.9 before training (100 prompts)" in said
    assert found_alerts(made_up_run, of(0.79, prompts=10), "few") == []
    assert found_alerts(made_up_run, {5: {"dph/keep_rate": 0.1}, 10: {"dph/keep_rate": 0.0}}, "no floor") == []


def test_failed_rollouts(made_up_run):
    steps = {step: {"dph/failed_rollouts": float(step == 2)} for step in range(1, 5)}
    [said] = found_alerts(made_up_run, steps, "training")
    assert said.startswith("Rollouts failed, 1 in the last 4 steps: ") and said.endswith("log.txt has their errors.")
    steps = {4: {"dph/failed_rollouts": 0.0, "dph/failed_validation_rollouts": 3.0}}
    assert found_alerts(made_up_run, steps, "validation")[0].startswith("Rollouts failed, 3 in the last validation: ")
    late = {step: {"dph/failed_rollouts": float(step == 2)} for step in range(1, 30)}
    assert found_alerts(made_up_run, late, "long ago") == []


def test_silence(made_up_run):
    run = made_up_run("run").record(0, 9).log({1: {"timing_s/step": 30.0}})
    [log] = run.folder.glob("metrics/*")
    for silent, said in ((200, []), (600, ["No step for 10 min, and none of the last 1 took more than 30 s"])):
        os.utime(log, (time.time() - silent,) * 2)
        assert [sentence.partition(":")[0] for sentence in alerts(read_run(run.folder))] == said
    run.record(1, 1)
    assert alerts(read_run(run.folder)) == []  # it has ended


@pytest.mark.timeout(60)
def test_in_a_terminal_it_follows_until_the_end(made_up_run, monkeypatch, capsys):
    monkeypatch.setattr(program.sys.stdout, "isatty", lambda: True)
    run = made_up_run("run").record(0, 3).log(STEPS)
    looks = []

    def passes(seconds):
        looks.append(seconds)
        run.log(STEPS | {3: {"critic/rewards/mean": 0.8}} if len(looks) == 2 else STEPS)

    monkeypatch.setattr(program.time, "sleep", passes)
    code, out, _ = watch(capsys, run.folder)
    frames = out.split(program.CLEAR)[1:]
    assert code == 0 and len(looks) == 2 and len(frames) == 3
    assert "step 2 of 3" in frames[1] and "has ended: step 3 of 3." in frames[2]

    def interrupt(seconds):
        raise KeyboardInterrupt

    run.log(STEPS)
    monkeypatch.setattr(program.time, "sleep", interrupt)
    assert watch(capsys, run.folder)[0] == 0
