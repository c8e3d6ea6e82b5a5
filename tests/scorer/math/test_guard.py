"""Attacks on a math worker: answers that never end, take much memory, nest deeply, or would become code.

The worker is the server's own, but without a sandbox, so that files made by an answer would be seen.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rl.scorer.config import MathSettings
from rl.scorer.math.scoring import MathQuestion, MathScorer
from rl.scorer.outcomes import Score
from tests.programs import REPOSITORY
from tests.scorer.conftest import running

# Of processor time, for one answer and for the worker, which is killed.
SECONDS = 0.2
KILLED_AFTER_SECONDS = 60.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder, in which the worker runs."""
    return tmp_path_factory.mktemp("worker")


@pytest.fixture(scope="module")
def scorer() -> MathScorer:
    settings = {"class_name": "MathRewardModel", "num_instances": 1, "slow_instances": 1, "sandbox": "off"}
    limits = {"prediction_seconds": SECONDS, "grace_seconds": SECONDS}
    return MathScorer(MathSettings.model_validate(settings | limits))


@pytest.fixture(scope="module")
def ask(scorer: MathScorer, folder: Path) -> Iterator[Callable[..., str]]:
    """ask(gold, pred, seconds=SECONDS): the outcome of one comparison; ask.score(gold, *preds): those of responses."""
    with asyncio.Runner() as runner, contextlib.ExitStack() as stack:
        workers = running(scorer)
        with contextlib.chdir(folder):
            runner.run(workers.__aenter__())
        stack.callback(lambda: runner.run(workers.__aexit__(None, None, None)))

        def outcome(gold: str, pred: str, seconds: float = SECONDS) -> str:
            job = {"job": "math", "gold": gold, "pred": pred, "seconds": seconds}
            header, _ = runner.run(scorer._ask(lambda _: (job, b""), KILLED_AFTER_SECONDS))
            return header["outcome"]

        def score(gold: str, *preds: str) -> list[str]:
            responses = [rf"\boxed{{{pred}}}" for pred in preds]
            return [each.outcome for each in runner.run(scorer.score(MathQuestion(ground_truth=gold), responses))]

        outcome.score = score
        yield outcome


# x_{0} ... x_{11}, twelve times.
ROWS = r"\\".join(["&".join(f"x_{{{i}}}" for i in range(12))] * 12)
HOSTILE = {
    "tower": "5^{5^{5^5}}",
    "modulus": r"2^{2^{100}} \bmod 7",
    "floor": r"\lfloor 10^{10^{9}} \rfloor",
    "exponentials": "e^{e^{e^{e^{10}}}} + 1.5",
    "factorials": "((((9!)!)!)!)!",
    "sum": r"\sum_{k=1}^{10^{9}} k^{k}",
    "harmonic sum": r"\sum_{k=1}^{1000000} \frac{1}{k}",
    "integral": r"\int_0^1 \sin(x^{x^x}) e^{x^2} \ln(x+\sqrt{x}) dx",
    "limit": r"\lim_{x\to\infty} \frac{x^{x^{x}}}{e^{e^{x}}}",
    "equation": r"\sin(x)+\cos(x^2)+\tan(x^3)=\ln(x)",
    "polynomial": "(x+1)^{100000}",
    "unit matrix": r"\operatorname{eye}(100000)",
    "determinant": rf"\det(\begin{{pmatrix}}{ROWS}\end{{pmatrix}})",
    "eigenvalues": r"\operatorname{eigenvals}(\begin{pmatrix}1&2&3&a\\2&3&b&5\\1&c&1&9\\d&2&4&6\end{pmatrix})",
    "digits": "9" * 2_000,
    "a megabyte of digits": "9" * 1_000_000,
    "exponent": "1E999999999",
    "10,000 braces": "{" * 10_000 + "5" + "}" * 10_000,
    "parentheses": "(" * 900 + "5" + ")" * 900,
    "braces of sets": r"\{" * 600,
    "minuses": "-" * 1_900 + "5",
    "signs": "^_" * 900,
    "summands": "x+" * 900 + "x",
    "boxes": r"\boxed{" * 280,
    "no text": "\x00\x01\ud800\u200b",
}


ALWAYS = ("tower", "sum", "determinant", "a megabyte of digits", "10,000 braces", "boxes", "no text")


@pytest.mark.parametrize(
    "name", [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.slow) for name in HOSTILE]
)
def test_a_hostile_answer_ends_and_the_next_is_right(ask: Callable[..., str], name: str) -> None:
    assert ask("-3.5", HOSTILE[name]) in ("mismatch", "pred_error", "pred_timeout")
    assert ask(r"\frac{1}{2}", "0.5", seconds=60) == "match"


def test_ordinary_runaways_cost_no_worker(ask: Callable[..., str], scorer: MathScorer) -> None:
    before = scorer.pool.ends["overran"]
    names = ["factorials", "sum", "integral", "parentheses", "unit matrix", "digits"]
    outcomes = {ask("-3.5", HOSTILE[name]) for name in names}
    assert outcomes <= {"pred_timeout", "mismatch"} and "pred_timeout" in outcomes
    assert scorer.pool.ends["overran"] == before and not {"lost", "crashed"} & scorer.pool.ends.keys()


def test_a_hostile_gold_answer_is_not_the_prediction_s_fault(ask: Callable[..., str]) -> None:
    assert ask(HOSTILE["parentheses"], "5") == "gold_timeout"
    assert ask(HOSTILE["a megabyte of digits"], "5") == "gold_error"
    assert ask("5", HOSTILE["a megabyte of digits"]) == "pred_error"
    assert ask(r"\frac{1}{2}", "0.5", seconds=60) == "match"


def test_a_gold_answer_that_hangs_only_when_it_is_compared_judges_nothing(ask: Callable[..., str]) -> None:
    assert ask.score(HOSTILE["tower"], "7", "8", HOSTILE["tower"]) == ["gold_timeout", "gold_timeout", "match"]
    assert ask.score("7", HOSTILE["tower"], "8") == ["pred_timeout", "mismatch"]


def test_a_gold_answer_that_crashes_the_worker_judges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def reply(prepare: Callable[[None], tuple[dict, bytes]], cpu_limit: float) -> tuple[dict, bytes]:
        job, _ = prepare(None)
        crashed = {"outcome": "pred_error", "error": "it crashed the process that ran it"}
        lost = {"outcome": "infra_error", "error": "lost"}
        mismatch = {"outcome": "mismatch", "score": 0.0}
        if job["gold"] == "lost":
            return (lost if job["pred"] == "0" else crashed), b""
        return (crashed if "crash" in job.values() else mismatch), b""

    made = MathScorer(MathSettings(class_name="MathRewardModel", num_instances=1))
    monkeypatch.setattr(made, "_ask", reply)

    def score(gold: str) -> Score:
        return asyncio.run(made.score(MathQuestion(ground_truth=gold), [r"\boxed{crash}"]))[0]

    assert [score(gold).outcome for gold in ("crash", "7", "lost")] == ["gold_error", "pred_error", "infra_error"]
    assert score("crash").flag == "gold_error"


# Python in the place of a symbol. Written without parentheses and blanks, which math-verify removes: it sets an
# attribute of Python's `license`, and calls os.mkdir("<numpy's version>").
SETS_MARKER = r"\text{[1for[license.marker]in[[1]]][0]}"
MAKES_DIRECTORY = (
    r"\text{[license.__class__[numpy.__version__]for[license.__class__.__class_getitem__]"
    r"in[[numpy.lib._datasource.os.mkdir]]]}"
)


def infinite_sum(symbol: str) -> str:
    """An expression that sympy evaluates by writing it as Python."""
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


def test_an_honest_sum_has_its_value_though_sympy_writes_code_for_it(ask: Callable[..., str]) -> None:
    assert ask("e", infinite_sum("1"), seconds=60) == "match"


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
def test_no_answer_runs_as_code(ask: Callable[..., str], folder: Path, gold: str) -> None:
    for code in CODE:
        assert ask(gold, code, seconds=5) in ("mismatch", "pred_timeout"), code
        # The gold answer may be hostile too.
        assert ask(code, "5", seconds=5) in ("mismatch", "gold_error", "gold_timeout", "pred_timeout"), code
        assert list(folder.rglob("*")) == [], code


def test_no_answer_changes_what_another_gets(ask: Callable[..., str]) -> None:
    pairs = [("x = 5", "5"), (r"\sqrt{8}", r"2\sqrt{2}"), ("even", "neve"), ("[1, 2)", "(1, 2]"), ("x^2", "x^3")]
    expected = ["match"] * 3 + ["mismatch"] * 2
    assert [ask(*pair, seconds=60) for pair in pairs] == expected
    hostile = [HOSTILE[name] for name in ("equation", "integral", "sum", "determinant")]
    odd = [r"x \in \{1, 2\}", r"A \in \mathbb{R}^{2 \times 3}", r"x \approx 7", r"\sqrt{8} = 3", r"5 := 6"]
    for pred in hostile + odd:
        ask("x = 5", pred)
    assert [ask(*pair, seconds=60) for pair in pairs] == expected
