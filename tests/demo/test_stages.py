"""Stages as real programs: done once, side by side, ended together, continued."""

import subprocess
import sys
import time

import psutil
import pytest

from rl.common.errors import UserError
from rl.common.processes import end_process_tree, process_tree
from rl.demo import stages
from rl.demo.stages import Pipeline, Stage


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(stages, "POLL_SECONDS", 0.02)


def stage(folder, name: str, program: str = "", needs=()) -> Stage:
    """Adds a line to its file, then does `program`."""
    file = folder / f"{name}.txt"
    code = f"import pathlib, sys, time\nwith open({str(file)!r}, 'a') as f: f.write('ran\\n')\n{program}"
    return Stage(name, [sys.executable, "-c", code], outputs=[file], needs=list(needs))


def runs(folder, name: str) -> int:
    path = folder / f"{name}.txt"
    return len(path.read_text().splitlines()) if path.exists() else 0


def wait_for(path) -> str:
    return f"\nwhile not pathlib.Path({str(path)!r}).exists(): time.sleep(.01)\n"


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch, capsys):
    first, out = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    for _ in range(2):
        Pipeline(first, {}).run([stage(first, "a")])
    first.rename(out)
    Pipeline(out, {}).run([stage(out, "a")])  # the folder has moved
    # Another name of the interpreter is the same command: make says python, a user python3.
    linked = tmp_path / "python-of-another-name"
    linked.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(linked))
    Pipeline(out, {}).run([stage(out, "a")])
    assert runs(out, "a") == 1 and "starts again" not in capsys.readouterr().err
    for reason in ("another command", "an output is missing"):
        Pipeline(out, {}).run([stage(out, "a", "pass")])  # from nothing
        assert runs(out, "a") == 1 and f"a  starts again ({reason})" in capsys.readouterr().err
        (out / "a.txt").unlink()
    (out / "stages" / "a.json").write_text("{}")
    with pytest.raises(UserError, match="a.json is not the mark of a stage: delete it"):
        Pipeline(out, {}).run([stage(out, "a")])


def test_what_the_user_has_put_into_the_folder_is_not_deleted(tmp_path):
    """A model of another program, and a link to a larger disk."""
    (tmp_path / "larger_disk").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "larger_disk")
    of_runs = Stage("a", ["true"], outputs=[tmp_path / "runs"])
    with pytest.raises(UserError, match="runs exists, and nothing here has made it"):
        Pipeline(tmp_path, {}).run([stage(tmp_path, "b"), of_runs])
    assert (tmp_path / "runs").is_dir() and not runs(tmp_path, "b")
    Pipeline(tmp_path, {}).run([stage(tmp_path, "b")])
    Pipeline(tmp_path, {}).run([of_runs])
    assert (tmp_path / "larger_disk").is_dir() and not (tmp_path / "runs").exists()


def test_stages_run_side_by_side_as_soon_as_their_needs_are_done(tmp_path):
    # Each of the first two ends only when the other one has begun.
    first = stage(tmp_path, "a1", wait_for(tmp_path / "b1.txt"))
    second = stage(tmp_path, "b1", wait_for(tmp_path / "a1.txt"))
    after = stage(tmp_path, "a2", f"assert pathlib.Path({str(tmp_path / 'a1.txt')!r}).exists()", needs=["a1"])
    pipeline = Pipeline(tmp_path, {})
    pipeline.run([first, second, after, stage(tmp_path, "c")], at_once=2)
    assert [runs(tmp_path, name) for name in ("a1", "a2", "b1", "c")] == [1, 1, 1, 1]
    assert set(pipeline.seconds) == {"a1", "a2", "b1", "c"}
    with pytest.raises(ValueError, match="b needs .'nobody'., and nothing makes"):
        pipeline.run([stage(tmp_path, "b", needs=["nobody"])])


def test_a_stage_that_takes_long_says_what_its_log_ends_with(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(stages, "LINE_SECONDS", 0.2)
    bar = "sys.stderr.write('\\r 10%| 1/9')\nsys.stderr.flush()\ntime.sleep(1)"
    Pipeline(tmp_path, {}).run([stage(tmp_path, "a", bar)])
    assert "(0/1 done) a  10%| 1/9\n" in capsys.readouterr().err


def test_a_failure_is_named_and_ends_the_others_which_go_on_later(tmp_path):
    fails = stage(tmp_path, "fails", wait_for(tmp_path / "long.txt") + "sys.exit('Error: no bread.')")
    forever = stage(tmp_path, "long", wait_for(tmp_path / "go_on"))
    with pytest.raises(UserError, match=r"fails failed: no bread. \(log: .*fails.log\)"):
        Pipeline(tmp_path, {}).run([forever, fails, stage(tmp_path, "never")], at_once=2)
    assert (runs(tmp_path, "long"), runs(tmp_path, "never")) == (1, 0)
    (tmp_path / "go_on").touch()
    Pipeline(tmp_path, {}).run([forever, stage(tmp_path, "never")], at_once=2)
    assert (runs(tmp_path, "long"), runs(tmp_path, "never")) == (2, 1)  # its file was kept and continued


def test_a_stage_whose_input_was_deleted_and_made_again_starts_from_scratch(tmp_path):
    """The new input may differ: the program of its stage, of the same command, may have changed."""
    stages = [stage(tmp_path, "a"), stage(tmp_path, "b", needs=["a"]), stage(tmp_path, "c", needs=["b"])]
    stages.append(stage(tmp_path, "other"))
    Pipeline(tmp_path, {}).run(stages)
    for name in ("b", "c", "other"):
        (tmp_path / f"{name}.txt").write_text("old\n")
    (tmp_path / "a.txt").unlink()
    Pipeline(tmp_path, {}).run(stages[:1])  # and the others in another run
    Pipeline(tmp_path, {}).run(stages)
    assert [(tmp_path / f"{name}.txt").read_text() for name in ("b", "c", "other")] == ["ran\n", "ran\n", "old\n"]


def test_a_program_is_ended_with_children_that_ignore_sigint():
    child = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    program = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, start_new_session=True)
    program.stdout.readline()
    tree = process_tree(program.pid)
    assert len(tree) == 2
    end_process_tree(program, grace_seconds=0.5)
    assert program.returncode is not None
    assert not [left for left in tree if left.is_running() and left.status() != psutil.STATUS_ZOMBIE]
    assert process_tree(program.pid) == []
    end_process_tree(program)  # that has ended already


def test_an_interrupted_or_incomplete_stage(tmp_path):
    """Interrupted it continues; of other settings, or without an output of its finished run, it starts from scratch."""

    def run(program):
        try:
            Pipeline(tmp_path, {}).run([stage(tmp_path, "a", program)])
        except UserError:
            return "failed"

    fails = f"sys.exit(not pathlib.Path({str(tmp_path / 'enough')!r}).exists())"
    assert run(fails) == run(fails) == "failed" and runs(tmp_path, "a") == 2
    run("")  # other settings, finished
    assert runs(tmp_path, "a") == 1
    assert run(fails) == "failed" and runs(tmp_path, "a") == 1  # back to the first: nothing of the second is reused
    (tmp_path / "enough").touch()
    assert run(fails) is None and runs(tmp_path, "a") == 2
    assert run(fails) is None and runs(tmp_path, "a") == 2  # done


def test_a_stage_ends_with_a_demo_that_is_killed(tmp_path):
    """Started again, the demo would otherwise have a second writer of the same files."""
    forever = [sys.executable, "-c", "import time; time.sleep(60)"]
    demo = f"""
from pathlib import Path
from rl.demo.stages import Pipeline, Stage
Pipeline(Path({str(tmp_path)!r}), {{}}).run([Stage("a", {forever!r})])
"""
    program = subprocess.Popen([sys.executable, "-c", demo])
    until = time.monotonic() + 30
    while len(tree := process_tree(program.pid)) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    program.kill()
    program.wait()
    _, alive = psutil.wait_procs(tree[1:], timeout=10)
    assert len(tree) == 2 and not alive
