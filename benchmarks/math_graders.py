r"""The math scorer beside Math-Verify and Qwen2.5-Math's grader, on the pairs of tests/scorer/math/pairs.tsv.

    python3 -m venv /tmp/math-verify && /tmp/math-verify/bin/pip install "math-verify[antlr4_13_2]==0.9.0"
    python3 -m venv /tmp/qwen && /tmp/qwen/bin/pip install --no-deps rlinf==0.3.0 rlinf-latex2sympy2==1.9.0 \
        antlr4-python3-runtime==4.11.1 sympy==1.12 mpmath==1.3.0 word2number==1.1 regex
    python benchmarks/math_graders.py --math-verify /tmp/math-verify/bin/python --qwen /tmp/qwen/bin/python [--pairs]

The program prints, by kind, on how many pairs each grader agrees with the file; --pairs lists the pairs on which a
grader does not. Each grader runs in its own environment, because they need different versions of ANTLR.

Qwen's grader is `math_equal` after `strip_string`, as the evaluation of Qwen2.5-Math applies them.
It is not on PyPI itself; RLinf's package has it, and the LaTeX parser that it needs. Upstream's newest grader.py
(29a82a8) differs from it in one verdict: there the answer 1 equals the gold 1,2. Math-Verify gets both answers in a
box, without further options.
"""

import argparse
import csv
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path

PAIRS = Path(__file__).parents[1] / "tests/scorer/math/pairs.tsv"
SECONDS = 30
Judge = Callable[[str, str], bool]


def ours() -> Judge:
    from rl.scorer.math.jobs import MathJobs

    jobs = MathJobs()

    def judge(gold: str, answer: str) -> bool:
        return jobs.reply({"gold": gold, "pred": answer, "seconds": SECONDS}, b"")[0]["outcome"] == "match"

    return judge


def math_verify() -> Judge:
    from math_verify import parse, verify

    def read(answer: str) -> list:
        return parse(rf"\boxed{{{answer}}}", parsing_timeout=None)

    return lambda gold, answer: verify(read(gold), read(answer), timeout_seconds=None)


def qwen() -> Judge:
    # Not `import rlinf.algorithms`, which imports torch.
    sys.path.insert(0, str(distribution("rlinf").locate_file("rlinf/algorithms/rewards/math")))
    from math_verifier.parser import strip_string
    from math_verifier.verify import math_equal

    return lambda gold, answer: bool(math_equal(strip_string(answer), strip_string(gold)))


GRADERS = {"ours": ours, "math-verify": math_verify, "qwen": qwen}


def judge_all(name: str) -> list[bool]:
    """A grader's verdicts, in this process. One that takes too long or fails is a mismatch."""

    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    judge = GRADERS[name]()
    verdicts = []
    for pair in read_pairs():
        signal.alarm(SECONDS)
        try:
            verdicts.append(judge(pair["gold"], pair["answer"]))
        except Exception:
            verdicts.append(False)
        signal.alarm(0)
    return verdicts


def read_pairs() -> list[dict[str, str]]:
    with PAIRS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def ask(name: str, python: str) -> list[bool]:
    """A grader's verdicts, in its environment."""
    done = subprocess.run([python, __file__, "--judge", name], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--math-verify", metavar="PYTHON", help="interpreter of an environment with math-verify")
    parser.add_argument("--qwen", metavar="PYTHON", help="interpreter of an environment with Qwen's grader")
    parser.add_argument("--pairs", action="store_true", help="list the pairs that a grader judges otherwise")
    parser.add_argument("--judge", choices=GRADERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.judge:
        sys.stdout.write(json.dumps(judge_all(options.judge)))
        return
    given = {"ours": sys.executable, "math-verify": options.math_verify, "qwen": options.qwen}
    verdicts = {name: ask(name, python) for name, python in given.items() if python}
    right: dict[str, Counter[str]] = {name: Counter() for name in verdicts}
    sizes: Counter[str] = Counter()
    for number, pair in enumerate(read_pairs()):
        said = {name: verdicts[name][number] == (pair["verdict"] == "same") for name in verdicts}
        for kind in (pair["kind"], "all"):
            sizes[kind] += 1
            for name in verdicts:
                right[name][kind] += said[name]
        if options.pairs and not all(said.values()):
            wrong = ", ".join(name for name in verdicts if not said[name])
            print(f"{pair['gold']}  {'=' if pair['verdict'] == 'same' else '!='}  {pair['answer']}    not {wrong}")
    print(f"{'kind':<12}{'pairs':>6}" + "".join(f"{name:>13}" for name in verdicts))
    for kind in (*(kind for kind in sizes if kind != "all"), "all"):
        print(f"{kind:<12}{sizes[kind]:>6}" + "".join(f"{right[name][kind]:>13}" for name in verdicts))


if __name__ == "__main__":
    main()
