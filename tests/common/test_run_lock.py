"""Two runs in one folder: the second is refused while the first is alive, however the first ends."""

import errno
import fcntl
import re
import signal
import socket
import subprocess
import sys

import pytest

from rl.common import append_log
from rl.common.append_log import AppendLog
from rl.common.errors import UserError
from rl.common.run_lock import sole_run

HOLD = """
import sys
from pathlib import Path
from rl.common.run_lock import sole_run
with sole_run(Path(sys.argv[1]), "-"):
    print("in", flush=True)
    sys.stdin.read()
"""
OTHERWISE = "give this run another NAME"


@pytest.fixture
def holder(tmp_path):
    """A process that is in the folder tmp_path/run; it ends with its input."""
    command = [sys.executable, "-c", HOLD, tmp_path / "run"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "in\n"
        yield process
        process.kill()


def refusal(folder) -> str:
    with pytest.raises(UserError) as error, sole_run(folder, OTHERWISE):
        pass
    return str(error.value)


@pytest.mark.parametrize("end", ["killed", "finished"])
def test_a_second_run_waits_until_the_first_has_ended(tmp_path, holder, end):
    folder = tmp_path / "run"
    owner = rf"process {holder.pid} on {re.escape(socket.gethostname())} since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d"
    for _ in range(2):  # who is refused changes nothing
        found = refusal(folder)
        expected = rf"A run is under way in {folder} \({owner}\): wait for it, or {OTHERWISE}\."
        assert re.fullmatch(expected, found)
    if end == "killed":
        holder.send_signal(signal.SIGKILL)
    else:
        holder.stdin.close()
    holder.wait()
    assert (folder / ".lock").exists() == (end == "killed")
    with sole_run(folder, OTHERWISE):
        assert refusal(folder).startswith("A run is under way")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("owner", ["process 7 on elsewhere since 2026-01-02 03:04:05", ""])
def test_a_run_on_another_host_is_dead_when_the_user_says_so(tmp_path, owner):
    """Its flock may be unknown here; an empty file belongs to a process that has not written it yet."""
    lock = tmp_path / ".lock"
    lock.write_text(owner)
    assert refusal(tmp_path) == (
        f"A run is under way in {tmp_path} ({owner or 'its process is not known'}), unless it was killed: wait for it, "
        f"or {OTHERWISE}; if that process is dead, delete {lock}."
    )
    assert lock.read_text() == owner
    lock.unlink()
    with sole_run(tmp_path, OTHERWISE):
        assert lock.exists()


def test_a_block_that_fails_leaves_the_folder(tmp_path, full_disk):
    with full_disk(0):
        said = refusal(tmp_path)
    assert said.startswith(f"{tmp_path}/.lock cannot be written (File too large): make room, make it writable, or ")
    with pytest.raises(ZeroDivisionError), sole_run(tmp_path, OTHERWISE):
        1 / 0  # noqa: B018
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    unwritable = f"{tmp_path}/file/.lock cannot be written (File exists): make room, make it writable, or {OTHERWISE}."
    assert refusal(tmp_path / "file") == unwritable


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def flock(descriptor, flags):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)
    said = "cannot be locked (Function not implemented): mount its file system with flock"
    assert said in refusal(tmp_path / "run") and not list((tmp_path / "run").iterdir())
    with pytest.raises(UserError, match=re.escape(said)):
        AppendLog(tmp_path / "samples.jsonl")


def test_a_file_that_another_process_deletes_at_that_moment_is_not_written(tmp_path, monkeypatch):
    """Its samples would be in no folder."""
    monkeypatch.setattr(append_log, "lock", lambda file, path: path.unlink() or True)
    with pytest.raises(UserError, match="Another process is writing"):
        AppendLog(tmp_path / "samples.jsonl")
