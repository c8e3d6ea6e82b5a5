"""Mixed load on a scorer server for a given time: every answer must be right, and memory must stay flat.

    python benchmarks/scorer_soak.py --minutes 40

The load has SQL, math and a custom task, with a known verdict for each response: right and wrong ones, errors, endless
queries, repeated and distinct answers. Every KILL_SECONDS all workers are killed (every third time the processes that
fork them), and some clients leave before their answer. An infra_error or a 503 judges nothing, so the question is
counted and asked again, as a training client does. The exit code is 1 after a wrong answer, a failed request, or growth
of memory.
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import aiohttp
import psutil
from scorer_server import Server, megabytes, serving
from scorer_traffic import ANSWERS, CORES, RUNAWAY, fenced, make_databases, say, sql_question

CLIENTS = 24
KILL_SECONDS = 20.0
SAMPLE_SECONDS = 5.0
LEAVING_SHARE, BATCH_SHARE, REPEATED_SHARE = 0.02, 0.3, 0.3
PREDICTION_SECONDS = 1.0
RETRIES = 20
# With this limit the caches are full, and memory is flat, after a quarter of the time.
CACHE_BYTES = 2_000_000
GROWTH = 1.10
TASK = """
def score(response, ground_truth):
    if "raise" in response:
        raise ValueError(response)
    return float(response == ground_truth)
"""
# Whether math-verify finds each pair of ANSWERS equal.
EQUAL = (True, True, True, True, False, True, False, True, True, True, True, False)


class Case(NamedTuple):
    """A question, a response, and the response's correct outcome."""

    question: dict
    response: str
    outcome: str


def sql_case(number: int, choice: random.Random) -> Case:
    limit = number % 150 + 10
    gold = f"SELECT id, city FROM orders WHERE id < {limit} -- {number % 1000}"
    predicted, outcome = choice.choice(
        (
            (f"SELECT id, city FROM orders WHERE id <= {limit - 1} AND {number} = {number}", "match"),
            (f"SELECT id, {number} FROM orders WHERE id < {limit}", "partial"),
            (f"SELECT {number} + 1000000", "mismatch"),
            (f"SELECT missing_{number} FROM orders", "pred_error"),
            (f"DELETE FROM orders WHERE id = {number}", "pred_error"),
            ("", "no_answer"),
        )
    )
    question = sql_question("small", gold, choice.choice(("bird", "spider")))
    return Case(question, fenced(predicted) if predicted else "I do not know.", outcome)


def runaway_case(number: int, choice: random.Random) -> Case:
    return Case(sql_question("small", "SELECT 1"), fenced(RUNAWAY.format(number)), "pred_timeout")


def math_case(number: int, choice: random.Random) -> Case:
    kind = choice.randrange(len(ANSWERS))
    gold, answer = (text.format(1000 + number) for text in ANSWERS[kind])
    return Case({"ground_truth": gold}, rf"So \boxed{{{answer}}}.", "match" if EQUAL[kind] else "mismatch")


def task_case(number: int, choice: random.Random) -> Case:
    right = choice.random() < 0.5
    question = {"task": "echo", "ground_truth": str(number)}
    return Case(question, str(number) if right else f"{number}?", "match" if right else "mismatch")


KINDS: tuple[tuple[float, Callable[[int, random.Random], Case]], ...] = (
    (0.5, sql_case),
    (0.005, runaway_case),
    (0.3, math_case),
    (0.195, task_case),
)


def make_case(number: int, choice: random.Random) -> Case:
    """A case of a random kind."""
    [make] = choice.choices([make for _, make in KINDS], [share for share, _ in KINDS])
    return make(number, choice)


class Findings:
    """What came of a load."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.memory: list[tuple[float, float]] = []  # MB of the server, and of the largest process below it

    def judge(self, case: Case, outcome: str) -> None:
        if outcome != case.outcome:
            self.wrong.append(f"{outcome} instead of {case.outcome}: {case.question} {case.response!r}")

    def sample_memory(self, server: psutil.Process) -> None:
        below = [megabytes(process) for process in server.children(recursive=True)]
        self.memory.append((megabytes(server), max(below, default=0.0)))

    def report(self, minutes: float) -> bool:
        """Print the findings; return whether all is well."""
        for what, count in sorted(self.counts.items()):
            print(f"{what:24} {count:9,}")
        for line in self.wrong[:20]:
            print(f"WRONG: {line}")
        # The caches fill first, so the maximum of the second quarter is compared with the maximum of the last.
        quarter = max(len(self.memory) // 4, 1)
        parts = self.memory[quarter : 2 * quarter], self.memory[-quarter:]
        early, late = ([max(column) for column in zip(*part, strict=True)] for part in parts)
        for place, what in enumerate(("the server", "its largest process")):
            say(f"memory of {what}", early[place], "MB, second quarter", late[place], "MB, last quarter")
        flat = all(last <= GROWTH * before for before, last in zip(early, late, strict=True))
        say(f"wrong in {minutes:g} minutes", len(self.wrong), "answers")
        print(f"load {os.getloadavg()[0]:.1f} at the end, {CORES} cores; memory {'is' if flat else 'IS NOT'} flat")
        return flat and not self.wrong


class Soak:
    """Clients that ask one server until the time is up."""

    def __init__(self, server: Server, seconds: float):
        self._server = server
        self._ends = time.monotonic() + seconds
        self._number = 0
        self._recent: list[Case] = []
        self.found = Findings()

    async def run(self) -> None:
        async with self._server.connect() as session:
            others = [asyncio.create_task(other) for other in (self._kill(), self._sample())]
            await asyncio.gather(*(self._ask_on(session, random.Random(seed)) for seed in range(CLIENTS)))
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    async def _ask_on(self, session: aiohttp.ClientSession, choice: random.Random) -> None:
        while time.monotonic() < self._ends:
            cases = [self._case(choice) for _ in range(8 if choice.random() < BATCH_SHARE else 1)]
            if choice.random() < LEAVING_SHARE:
                self.found.counts["clients that left"] += 1
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._post(session, cases), 0.005)
                continue
            await self._ask(session, cases)

    def _case(self, choice: random.Random) -> Case:
        if self._recent and choice.random() < REPEATED_SHARE:
            return choice.choice(self._recent)
        self._number += 1
        case = make_case(self._number, choice)
        self._recent = [*self._recent[-500:], case]
        return case

    async def _ask(self, session: aiohttp.ClientSession, cases: list[Case]) -> None:
        for _ in range(RETRIES):
            found = await self._post(session, cases)
            again = [case for case, outcome in zip(cases, found, strict=True) if outcome == "again"]
            for case, outcome in zip(cases, found, strict=True):
                self.found.counts[outcome] += 1
                if outcome != "again":
                    self.found.judge(case, outcome)
            if not again:
                return
            cases = again
            await asyncio.sleep(0.1)
        self.found.wrong.append(f"no judgement in {RETRIES} attempts: {cases[0].question}")

    async def _post(self, session: aiohttp.ClientSession, cases: list[Case]) -> list[str]:
        body = {"questions": [{"question": case.question, "responses": [case.response]} for case in cases]}
        async with session.post("/v1/score", json=body) as reply:
            content = await reply.json()
        if reply.status == 503:
            return ["again"] * len(cases)
        if reply.status != 200:
            return [f"HTTP {reply.status}"] * len(cases)
        outcomes = (answer["outcome"] for [answer] in content["answers"])
        return ["again" if outcome == "infra_error" else outcome for outcome in outcomes]

    async def _kill(self) -> None:
        number = 0
        while time.monotonic() + KILL_SECONDS < self._ends:  # requests in progress at the end may finish
            await asyncio.sleep(KILL_SECONDS)
            number += 1
            killed = self._server.kill_workers(fork_servers=number % 3 == 0)
            self.found.counts["fork servers killed" if number % 3 == 0 else "workers killed"] += killed

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            self.found.sample_memory(self._server.process)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=40, help="default: 40")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_databases(root)
        (root / "echo.py").write_text(TASK)
        limits = {"prediction_seconds": PREDICTION_SECONDS, "answer_cache_bytes": CACHE_BYTES}
        scorers = {
            "Scorer1": {"class_name": "SqlDetailRewardModel", "database_path": str(root), **limits},
            "Scorer2": {"class_name": "MathRewardModel", "answer_cache_bytes": CACHE_BYTES},
            "Scorer3": {"class_name": "PythonRewardModel", "task": "echo", "function": f"{root}/echo.py:score"}
            | {"answer_cache_bytes": CACHE_BYTES},
        }
        with serving(root, scorers=scorers) as server:
            soak = Soak(server, 60 * options.minutes)
            asyncio.run(soak.run())
            return 0 if soak.found.report(options.minutes) else 1


if __name__ == "__main__":
    sys.exit(main())
