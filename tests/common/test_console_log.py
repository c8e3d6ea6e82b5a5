"""What the terminal and the log get of a program's output, of its children and of what Ray prints."""

import signal
import subprocess
import sys

from rl.common import console_filter
from rl.common.console_filter import Terminal

PROGRAM = """
import logging, os, subprocess, sys, pathlib
from rl.common.cli import user_errors_exit
from rl.common.console_log import console_log
from rl.common.errors import UserError

with user_errors_exit():
    with console_log(pathlib.Path("run/log.txt")):
        print({"actor_rollout_ref": "a dump of the configuration"})
        os.write(2, b"from C code\\n")
        logging.getLogger("verl.dph.x").warning("a scorer rests")
        logging.getLogger("other").warning("torchtitan is not available")
        sys.stderr.write("\\r  0%|          | 0/24 [00:00<?, ?it/s]")
        sys.stderr.write("\\r100%|##########| 24/24 [00:00<?, ?it/s]WARNING: noise behind a bar\\n")
        # Outlives the block, and holds its output open.
        subprocess.Popen([sys.executable, "-c", "import time; print('of a child', flush=True); time.sleep(3)"])
        print("step:2 - critic/rewards/mean:np.float64(0.39843) - val-core/sql/acc/mean@1:0.5 - perf/x:1.0", flush=True)
        if sys.argv[1] == "fails":
            raise UserError("x is 3; set it to 4.")
    print("The results.")
"""


def run(folder, argument: str):
    command = [sys.executable, "-c", PROGRAM, argument]
    return subprocess.run(command, cwd=folder, env={"PATH": "/usr/bin"}, capture_output=True, text=True, timeout=60)


def test_the_terminal_has_what_people_need_and_the_log_everything(tmp_path):
    done = run(tmp_path, "ends")
    assert (done.returncode, done.stdout) == (0, "The results.\n")
    first, *lines = done.stderr.replace("\r", "\n").splitlines()
    assert first == "Log: run/log.txt (VERBOSE=1 prints everything)"
    assert [line for line in lines if line] == [
        "a scorer rests",
        "  0%|          | 0/24 [00:00<?, ?it/s]",
        "100%|##########| 24/24 [00:00<?, ?it/s]",
        "step:2 reward 0.3984  sql/acc/mean@1 0.5",
    ]
    log = (tmp_path / "run" / "log.txt").read_text()
    for text in ("a dump of", "from C code", "dph: a scorer rests", "torchtitan", "noise behind a bar", "perf/x:1.0"):
        assert log.count(text) == 1, text
    assert "%|" not in log and "The results" not in log
    # Again, with an error: it is the last line, and the log goes on.
    done = run(tmp_path, "fails")
    assert done.returncode == 2 and done.stderr.splitlines()[-1] == "Error: x is 3; set it to 4."
    log = (tmp_path / "run" / "log.txt").read_text()
    assert log.count("a dump of") == 2 and log.splitlines()[0].startswith("--- 20") and log.count("--- 20") == 2


def test_an_error_that_all_rollouts_have_is_shown_once_with_its_cause():
    lines = []
    for number in range(64):
        lines += [
            f"ERROR:2026-11-23 10:00:0{number % 10},12:Error in _run_prompt for uid=step00000001-{number:06d}",
            "Traceback (most recent call last):",
            '  File "score.py", line 79, in compute_score',
            "rl.scorer.client.protocol.ScorerUnavailable: No scorer answers at http://127.0.0.1:9 (9 attempts)",
        ]
    lines += ["ERROR another one", "dph: a scorer rests", "ValueError: x", "ValueError: nobody asked"]
    shown = [text for text in map(Terminal().shown, lines) if text is not None]
    assert shown == [lines[0], lines[3], "ERROR another one", "a scorer rests", "ValueError: x"]


def test_an_interrupted_filter_reads_to_the_end_of_the_output(tmp_path):
    """What ends a program with all its descendants interrupts the filter too: the log ended in its traceback."""
    command = [sys.executable, "-I", "-S", console_filter.__file__, str(tmp_path / "log.txt")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        process.stdin.write(b"dph: it starts\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"it starts\n"
        process.send_signal(signal.SIGINT)
        # A program that is killed may leave its last line without an end.
        output, _ = process.communicate(b"dph: it ends", timeout=30)
    assert (process.returncode, output) == (0, b"it ends\n")
    assert (tmp_path / "log.txt").read_text() == "dph: it starts\ndph: it ends\n"
