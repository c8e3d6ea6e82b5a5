"""Attacks on a math worker: answers that run on, that eat memory, that nest, and that would become code.

The worker is the real process with the settings that the server gives it, killed by the test where the server would.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import psutil
import pytest

from rl.scorer import frames
from rl.scorer.sandbox.support import offered
from rl.scorer.worker import FORK, NUMBER

REPOSITORY = Path(__file__).resolve().parents[2]
# Of processor time, for one answer.
SECONDS = 0.2
# On the clock, for one answer on a slow machine.
KILLED_AFTER_SECONDS = 60
MEMORY_BYTES = 512_000_000


@dataclass
class Worker:
    """A worker in an empty directory, of a fork server of its own; `ask` forks another when the last one ended."""

    directory: Path
    fork_server: subprocess.Popen | None = None
    control: socket.socket | None = None
    pid: int | None = None
    channel: BinaryIO | None = None
    starts: int = 0

    def ask(self, gold: str, pred: str, seconds: float = SECONDS) -> dict | None:
        """The reply's header, None when the worker had none in time and was killed, or ended."""
        if self.pid is None:
            self._start()
        job = {"job": "math", "gold": gold, "pred": pred, "seconds": seconds}
        self.channel.write(frames.encode(job))
        self.channel.flush()
        killer = threading.Timer(KILLED_AFTER_SECONDS, os.kill, (self.pid, signal.SIGKILL))
        killer.start()
        reply = frames.read(self.channel)
        killer.cancel()
        if reply is None or reply[0].get("last"):
            self._end()
        return reply and reply[0]

    def _start(self) -> None:
        if self.fork_server is None:
            self._start_fork_server()
        ours, its = socket.socketpair()
        with its:
            self.pid = self._request(FORK, [its.fileno()])
        with ours:
            self.channel = ours.makefile("rwb")
        self.starts += 1
        assert frames.read(self.channel)[0]["outcome"] == "ready"

    def _start_fork_server(self) -> None:
        sandbox = {"mechanisms": offered(), "reads": [], "allow": []}
        settings = {"kind": "math", "memory_bytes": MEMORY_BYTES, "jobs": {}, "sandbox": sandbox}
        self.control, its = socket.socketpair()
        with its:
            self.fork_server = subprocess.Popen(
                [sys.executable, "-m", "rl.scorer.worker", json.dumps(settings)],
                stdin=its,
                cwd=self.directory,
                env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
            )
        assert self.control.recv(NUMBER.size) == NUMBER.pack(0)

    def _request(self, number: int, descriptors: list[int]) -> int:
        socket.send_fds(self.control, [NUMBER.pack(number)], descriptors)
        return NUMBER.unpack(self.control.recv(NUMBER.size))[0]

    def _end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self._request(self.pid, [])
        self.channel.close()
        self.pid = None

    def close(self) -> None:
        if self.fork_server is not None:
            self.fork_server.kill()
            self.fork_server.wait()
            self.control.close()


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker(tmp_path_factory.mktemp("worker"))
    yield worker
    worker.close()


# x_{0} ... x_{11}, twelve times.
ROWS = r"\\".join(["&".join(f"x_{{{i}}}" for i in range(12))] * 12)
HOSTILE = {
    "tower": "5^{5^{5^5}}",
    "tower without braces": "5^5^5^5",
    "modulus": r"2^{2^{100}} \bmod 7",
    "floor": r"\lfloor 10^{10^{9}} \rfloor",
    "sine": r"\sin(10^{10^{10}})",
    "exponentials": "e^{e^{e^{e^{10}}}} + 1.5",
    "factorials": "((((9!)!)!)!)!",
    "binomial": r"\binom{1000000000}{100000000}",
    "sum": r"\sum_{k=1}^{10^{9}} k^{k}",
    "harmonic sum": r"\sum_{k=1}^{1000000} \frac{1}{k}",
    "product": r"\prod_{k=1}^{1000000} k",
    "integral": r"\int_0^1 \sin(x^{x^x}) e^{x^2} \ln(x+\sqrt{x}) dx",
    "limit": r"\lim_{x\to\infty} \frac{x^{x^{x}}}{e^{e^{x}}}",
    "equation": r"\sin(x)+\cos(x^2)+\tan(x^3)=\ln(x)",
    "polynomial": "(x+1)^{100000}",
    "unit matrix": r"\operatorname{eye}(100000)",
    "matrix of ones": r"\operatorname{ones}(3000,3000)",
    "determinant": rf"\det(\begin{{pmatrix}}{ROWS}\end{{pmatrix}})",
    "eigenvalues": r"\operatorname{eigenvals}(\begin{pmatrix}1&2&3&a\\2&3&b&5\\1&c&1&9\\d&2&4&6\end{pmatrix})",
    "digits": "9" * 2_000,
    "a megabyte of digits": "9" * 1_000_000,
    "decimals": "0." + "9" * 1_900,
    "exponent": "1E999999999",
    "10,000 braces": "{" * 10_000 + "5" + "}" * 10_000,
    "900 braces": "{" * 900 + "5" + "}" * 900,
    "roots": r"\sqrt{" * 200 + "5" + "}" * 200,
    "parentheses": "(" * 900 + "5" + ")" * 900,
    "braces of sets": r"\{" * 600,
    "bars": "|" * 1_900,
    "minuses": "-" * 1_900 + "5",
    "signs": "^_" * 900,
    "commas": "1," * 900 + "1",
    "summands": "x+" * 900 + "x",
    "dollars": "$" * 1_900,
    "boxes": r"\boxed{" * 280,
    "commands": r"\frac" * 390,
    "no text": "\x00\x01\ud800\u200b",
    "digits of other scripts": "\u0665" * 100,
}


ALWAYS = ("tower", "sum", "determinant", "a megabyte of digits", "10,000 braces", "boxes", "no text")


@pytest.mark.parametrize(
    "name", [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.slow) for name in HOSTILE]
)
def test_a_hostile_answer_ends_and_the_next_is_right(worker: Worker, name: str) -> None:
    reply = worker.ask("-3.5", HOSTILE[name])
    # None: killed, as the server would. It does not happen with Python's integers, and would cost one worker.
    assert reply is None or reply["outcome"] in ("mismatch", "pred_error", "pred_timeout")
    assert worker.ask(r"\frac{1}{2}", "0.5", seconds=60)["outcome"] == "match"


def test_ordinary_runaways_cost_no_worker(worker: Worker) -> None:
    worker.ask("5", "5")
    starts = worker.starts
    names = ["factorials", "sum", "integral", "parentheses", "unit matrix", "digits"]
    outcomes = {worker.ask("-3.5", HOSTILE[name])["outcome"] for name in names}
    assert outcomes <= {"pred_timeout", "mismatch"} and "pred_timeout" in outcomes
    assert worker.starts == starts


def test_a_hostile_gold_answer_is_not_the_prediction_s_fault(worker: Worker) -> None:
    assert worker.ask(HOSTILE["parentheses"], "5")["outcome"] == "gold_timeout"
    assert worker.ask(HOSTILE["a megabyte of digits"], "5")["outcome"] == "gold_error"
    assert worker.ask("5", HOSTILE["a megabyte of digits"])["outcome"] == "pred_error"
    assert worker.ask(r"\frac{1}{2}", "0.5", seconds=60)["outcome"] == "match"


# Python in the place of a symbol. Written without parentheses and blanks, which math-verify removes: it sets an
# attribute of Python's `license`, and calls os.mkdir("<numpy's version>").
SETS_MARKER = r"\text{[1for[license.marker]in[[1]]][0]}"
MAKES_DIRECTORY = (
    r"\text{[license.__class__[numpy.__version__]for[license.__class__.__class_getitem__]"
    r"in[[numpy.lib._datasource.os.mkdir]]]}"
)


def infinite_sum(symbol: str) -> str:
    """An expression whose numerical value sympy takes by writing it down in Python."""
    return rf"\sum_{{n=0}}^{{\infty}} \frac{{{symbol}^{{n}}}}{{n!}} + 0"


# Compares the answer argv[2] with e, by math-verify ("bare") or by the worker's code, and says if `license` changed.
COMPARE = """
import builtins, sys
if sys.argv[1] == "bare":
    from math_verify import parse, verify
    verify(parse("$e$"), parse(rf"\\boxed{{{sys.argv[2]}}}"))
else:
    from rl.scorer.math.jobs import MathJobs
    print(MathJobs().reply({"job": "math", "gold": "e", "pred": sys.argv[2], "seconds": 60}, b"")[0]["outcome"])
print(hasattr(builtins.license, "marker"))
"""


def compare(how: str, pred: str) -> list[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMPARE, how, pred],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    ).stdout.split()


@pytest.mark.slow
def test_text_becomes_code_in_math_verify_but_not_in_a_worker() -> None:
    attack = infinite_sum(SETS_MARKER)
    assert compare("bare", attack) == ["True"]
    assert compare("worker", attack) == ["mismatch", "False"]


def test_an_honest_sum_has_its_value_though_sympy_writes_code_for_it(worker: Worker) -> None:
    assert worker.ask("e", infinite_sum("1"), seconds=60)["outcome"] == "match"


SYSTEM = "__import__('os').system('touch pwned')"
CODE = [
    SYSTEM,
    rf"\text{{{SYSTEM}}}",
    rf"\operatorname{{{SYSTEM}}}",
    rf"\variable{{{SYSTEM}}}",
    rf"5 + \text{{{SYSTEM}}} = 5",
    r"\text{open('pwned', 'w')}",
    r"\operatorname{open}(\text{pwned}, w)",
    r"\operatorname{exec}(\text{open('pwned','w')})",
    r"open(pwned,w)",
    r"x=__import__('os').mkdir('pwned')",
    r"\begin{pmatrix} \text{open('pwned','w')} \end{pmatrix}",
    "(lambda: open('pwned','w'))()",
    "= 1+open('pwned','w').x",
    "'''+open('pwned','w')+'''",
    infinite_sum(MAKES_DIRECTORY),
    infinite_sum(rf"\text{{{SYSTEM}}}"),
    infinite_sum(r"\operatorname{open}(\text{pwned})"),
    infinite_sum("f(7)"),
    infinite_sum(SETS_MARKER).replace(r"\infty", "99"),
    rf"\int_0^1 x^{{{MAKES_DIRECTORY}}} dx",
    rf"\lim_{{x \to 0}} \frac{{\sin(x {MAKES_DIRECTORY})}}{{x}}",
    rf"x^5 + {MAKES_DIRECTORY} x > 1",
    rf"{{{MAKES_DIRECTORY}}}_{{{MAKES_DIRECTORY}}}",
    rf"\gcd({MAKES_DIRECTORY}, 5)",
]


@pytest.mark.parametrize("gold", ["e", pytest.param("x^5 - x > 2", marks=pytest.mark.slow)])
def test_no_answer_runs_as_code(worker: Worker, gold: str) -> None:
    for code in CODE:
        reply = worker.ask(gold, code, seconds=5)
        assert reply["outcome"] in ("mismatch", "pred_timeout"), code
        # And where the data set is hostile.
        reply = worker.ask(code, "5", seconds=5)
        assert reply["outcome"] in ("mismatch", "gold_error", "gold_timeout", "pred_timeout"), code
        assert list(worker.directory.rglob("*")) == [], code


def test_no_answer_changes_what_another_gets(worker: Worker) -> None:
    pairs = [("x = 5", "5"), (r"\sqrt{8}", r"2\sqrt{2}"), ("even", "neve"), ("[1, 2)", "(1, 2]"), ("x^2", "x^3")]
    assert [worker.ask(*pair, seconds=60)["outcome"] for pair in pairs] == ["match"] * 3 + ["mismatch"] * 2
    for name in ("equation", "integral", "sum", "determinant"):
        worker.ask("x = 5", HOSTILE[name])
    for pred in (r"x \in \{1, 2\}", r"A \in \mathbb{R}^{2 \times 3}", r"x \approx 7", r"\sqrt{8} = 3", r"5 := 6"):
        worker.ask("x = 5", pred)
    assert [worker.ask(*pair, seconds=60)["outcome"] for pair in pairs] == ["match"] * 3 + ["mismatch"] * 2


@pytest.mark.slow
def test_memory_settles(worker: Worker) -> None:
    for k in range(250):
        assert worker.ask(rf"\frac{{{k}}}{{7}}", f"{k} x + {k}.5, {k}", seconds=60)["outcome"] == "mismatch"
        if k == 100:
            settled = psutil.Process(worker.pid).memory_info().rss
    assert psutil.Process(worker.pid).memory_info().rss < settled + 30_000_000
