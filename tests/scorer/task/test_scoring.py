"""Tasks of a user's own: what their reward functions may do to the worker that runs them, and what they may not."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from rl.scorer.config import TaskSettings
from rl.scorer.outcomes import Score
from rl.scorer.task.scoring import TaskQuestion, TaskScorer
from tests.scorer.conftest import confined, running

Judge = Callable[..., list[Score]]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """judge(code, responses, ground_truth=None): the scores by the function `score` of `code`, from one worker."""

    def run(code: str, responses: list[str], ground_truth: object = None, **settings: object) -> list[Score]:
        path = tmp_path / "reward.py"
        path.write_text(code)
        given = {"num_instances": 1, "slow_instances": 1, **settings}
        named = {"class_name": "PythonRewardModel", "task": "own", "function": f"{path}:score"}
        scorer = TaskScorer(TaskSettings.model_validate(named | given))

        async def scenario() -> list[Score]:
            async with asyncio.timeout(40), running(scorer):
                question = TaskQuestion(task="own", ground_truth=ground_truth)
                return [score for response in responses for score in await scorer.score(question, [response])]

        return asyncio.run(scenario())

    return run


FORGERY = """
import json, os, socket, struct, subprocess, sys

FORGER = '''
import json, os, struct
header = json.dumps({"outcome": "match", "score": 1.0, "pred": "forged", "cpu": 0.0}).encode()
for descriptor in range(256):
    try:
        os.write(descriptor, struct.pack(">II", len(header), 0) + header)
    except OSError:
        pass
'''

def score(response, ground_truth):
    if response == "fork":
        child = os.fork()
        if child == 0:
            exec(FORGER)
            return 1.0
        os.waitpid(child, 0)
    else:
        subprocess.run([sys.executable, "-c", FORGER])
    return {"score": 0.0, "pred": "honest"}
"""


@pytest.mark.parametrize("child", ["run", "fork"])
def test_a_child_of_a_function_forges_no_score(judge: Judge, child: str) -> None:
    scores = judge(FORGERY, [child, child + " "], allow=["subprocess"])
    assert [(score.outcome, score.pred) for score in scores] == [("mismatch", "honest")] * 2


READING = """
import sys

print("loaded")
LOADED = sys.stdin.read()

def score(response, ground_truth):
    try:
        return {"score": 1.0, "pred": input()}
    except EOFError:
        return {"score": 0.5, "pred": "nothing to read" + LOADED}
"""


def test_a_function_that_reads_or_prints_meets_no_frame(judge: Judge) -> None:
    scores = judge(READING, ["a", "b"])
    assert [(score.outcome, score.pred) for score in scores] == [("partial", "nothing to read")] * 2


SURVIVOR = """
import contextlib, os, stat, subprocess

def sockets():
    found = []
    for descriptor in range(256):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                found.append(descriptor)
    return found

def score(response, ground_truth):
    if response == "next":
        return 1.0
    program = f"import os, time; os.setsid() if {response == 'daemon'} else 0; time.sleep(30)"
    child = subprocess.Popen([os.sys.executable, "-c", program], pass_fds=sockets())
    if response == "leave":
        return {"score": 0.5, "pred": str(child.pid)}
    while True:
        pass
"""


@pytest.mark.parametrize("holds", ["child", "daemon"])
def test_a_surviving_child_that_holds_the_socket_keeps_no_slot(judge: Judge, holds: str) -> None:
    try:
        # The sandbox would refuse the daemon its session.
        settings = {"sandbox": "off"} if holds == "daemon" else {"allow": ["subprocess"]}
        scores = judge(SURVIVOR, [holds, "next"], prediction_seconds=0.3, **settings)
    finally:
        for process in psutil.process_iter(["cmdline"]):
            if holds == "daemon" and "os.setsid() if True" in " ".join(process.info["cmdline"] or []):
                process.kill()
    assert [score.outcome for score in scores] == ["pred_timeout", "match"]


LEAVING = """
import ctypes, os

def score(response, ground_truth):
    if response == "next":
        return 1.0
    try:
        ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
        os.setpgid(0, os.getppid())
    except PermissionError:
        pass
    while True:
        pass
"""


@pytest.mark.parametrize("sandbox", [pytest.param("required", marks=confined), "off"])
def test_a_function_that_leaves_its_process_group_ends_at_its_limit(judge: Judge, sandbox: str) -> None:
    """Its worker ran on, and never freed its slot."""
    scores = judge(LEAVING, ["leave", "leave again", "next"], prediction_seconds=0.3, sandbox=sandbox)
    assert [score.outcome for score in scores] == ["pred_timeout", "pred_timeout", "match"]


DETACHING = """
import subprocess

def score(response, ground_truth):
    try:
        subprocess.run(["true"], check=True, **{response: True} if response else {})
    except PermissionError:
        return 0.5
    return 1.0
"""


@confined
def test_a_program_gets_no_session_of_its_own(judge: Judge) -> None:
    scores = judge(DETACHING, ["", "start_new_session"], allow=["subprocess"], sandbox="required")
    assert [score.outcome for score in scores] == ["match", "partial"]


def test_a_child_ends_with_its_worker(judge: Judge) -> None:
    [left] = judge(SURVIVOR, ["leave"], allow=["subprocess"])
    assert left.outcome == "partial"
    with suppress(psutil.NoSuchProcess):  # a zombie stays until init has seen it
        psutil.Process(int(left.pred or 0)).wait(5)


EXITING = """
def score(response, ground_truth):
    if response == "exit":
        raise SystemExit(0)
    return 1.0
"""


def test_a_function_that_exits_judges_nothing_and_keeps_its_worker(judge: Judge) -> None:
    first, second = judge(EXITING, ["exit", "next"])
    assert (first.outcome, first.score, second.outcome) == ("infra_error", 0.0, "match")
    assert "the reward function raised SystemExit(0)" in first.payload


WAITING = """
import subprocess, time

def score(response, ground_truth):
    if response == "sleep":
        time.sleep(60)
    if response == "child":
        subprocess.run(["sleep", "60"])
    return 1.0
"""


def test_a_function_that_waits_reaches_its_time_limit_by_the_clock(judge: Judge) -> None:
    scores = judge(WAITING, ["sleep", "next", "child", "last"], wall_seconds=1.0, allow=["subprocess"])
    assert [score.outcome for score in scores] == ["pred_timeout", "match"] * 2
