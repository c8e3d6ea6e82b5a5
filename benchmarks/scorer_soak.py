"""Mixed load on scorer servers for a given time: every answer must be right, and memory must stay flat.

    python benchmarks/scorer_soak.py --minutes 40
    python benchmarks/scorer_soak.py --minutes 20 --fleet

The load has SQL, math and a custom task, with a known verdict for each response: right and wrong ones, errors, endless
queries, repeated and distinct answers, PUT /api and POST /v1/score. Every KILL_SECONDS all workers are killed (every
third time the processes that fork them), and some clients leave before their answer. An infra_error or a 503 judges
nothing, so the question is counted and asked again, as a training client does. The exit code is 1 after a wrong answer,
a failed request, or growth of memory.

--fleet: CLIENTS_OF_FLEET of training's clients, with IN_FLIGHT responses in all under way, ask two servers behind a
list. Some bodies have nearly 10 MB. One server is killed every FLEET_KILL_SECONDS and comes back, the other one ends
and starts again in the middle. Each call must return once, with the known verdict, and a repeated question must get the
same score each time.
"""

import argparse
import asyncio
import logging
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import aiohttp
import psutil
from scorer_server import Server, megabytes, serving, start, wait_for
from scorer_traffic import ANSWERS, CORES, RUNAWAY, fenced, make_databases, say, sql_question

from rl.common.errors import UserError
from rl.scorer.client.protocol import Score
from rl.scorer.client.scorer_client import ScorerClient

CLIENTS = 24
KILL_SECONDS = 20.0
SAMPLE_SECONDS = 5.0
LEAVING_SHARE, BATCH_SHARE, REPEATED_SHARE = 0.02, 0.3, 0.3
PREDICTION_SECONDS = 1.0
RETRIES = 20
# With this limit the caches are full, and memory is flat, after a quarter of the time.
CACHE_BYTES = 2_000_000
GROWTH = 1.10
CLIENTS_OF_FLEET, IN_FLIGHT = 64, 10_000
FLEET_KILL_SECONDS, DOWN_SECONDS = 30.0, 5.0
LARGE_SHARE, LARGE_CHARACTERS = 0.0005, 9_900_000
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
        self.memory: list[tuple[float, float, int]] = []  # MB of the server, of the largest process below it; processes

    def judge(self, case: Case, outcome: str) -> None:
        if outcome != case.outcome:
            self.wrong.append(f"{outcome} instead of {case.outcome}: {case.question} {case.response!r}")

    def sample_memory(self, server: psutil.Process) -> None:
        below = [megabytes(process) for process in server.children(recursive=True)]
        self.memory.append((megabytes(server), max(below, default=0.0), len(below)))

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
        say("processes", early[2], "second quarter", late[2], "last quarter")
        flat = all(late[place] <= GROWTH * early[place] for place in (0, 1))
        say(f"wrong in {minutes:g} minutes", len(self.wrong), "answers")
        print(f"load {os.getloadavg()[0]:.1f} at the end, {CORES} cores; memory {'is' if flat else 'IS NOT'} flat")
        return flat and not self.wrong


async def run_beside(clients: Iterable[Coroutine], others: Iterable[Coroutine]) -> None:
    """Run the others until all clients have ended."""
    tasks = [asyncio.create_task(other) for other in others]
    await asyncio.gather(*clients)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


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
            clients = (self._ask_on(session, random.Random(seed)) for seed in range(CLIENTS))
            await run_beside(clients, (self._kill(), self._sample()))

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
            found = await (self._put(session, cases[0]) if len(cases) == 1 else self._post(session, cases))
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

    async def _put(self, session: aiohttp.ClientSession, case: Case) -> list[str]:
        body = {"gen_responses": [case.response], "extra": case.question}
        async with session.put("/api", json=body) as reply:
            content = await reply.json()
        if reply.status == 503:
            return ["again"]
        return [content["details"][0]["outcome"] if reply.status == 200 else f"HTTP {reply.status}"]

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


class Fleet:
    """The same for two servers and training's clients. The memory is the second server's."""

    def __init__(self, root: Path, scorers: dict, seconds: float):
        self._folders = [root / "first", root / "second"]
        self._scorers = scorers
        self._ends = time.monotonic() + seconds
        self._seconds = seconds
        self._number = 0
        self._repeated: dict[int, Score] = {}
        self._large = asyncio.Semaphore(2)  # this process holds several copies of a large response
        self.found = Findings()

    async def run(self) -> None:
        for folder in self._folders:
            folder.mkdir()
        self._processes = [start(folder, self._scorers) for folder in self._folders]
        try:
            self._addresses = [wait_for(*each) for each in zip(self._folders, self._processes, strict=True)]
            others = self._kill_first(), self._end_second(), self._sample()
            await run_beside(map(self._client, range(CLIENTS_OF_FLEET)), others)
        finally:
            for process in self._processes:
                process.terminate()
                process.wait()

    async def _client(self, seed: int) -> None:
        choice = random.Random(seed)
        async with ScorerClient(self._addresses) as client:
            asking = (self._ask_on(client, choice) for _ in range(IN_FLIGHT // CLIENTS_OF_FLEET))
            await asyncio.gather(*asking)

    async def _ask_on(self, client: ScorerClient, choice: random.Random) -> None:
        while time.monotonic() < self._ends:
            if choice.random() < LARGE_SHARE:
                async with self._large:
                    await self._ask(client, choice, large=True)
            else:
                await self._ask(client, choice)

    async def _ask(self, client: ScorerClient, choice: random.Random, large: bool = False) -> None:
        if repeated := choice.random() < REPEATED_SHARE:
            number = choice.randrange(1000)
        else:
            self._number += 1
            number = 1000 + self._number
        # A task compares the whole response.
        case = (sql_case if large else make_case)(number, random.Random(number))
        response = "I think. " * (LARGE_CHARACTERS // 9) + case.response if large else case.response
        counts = self.found.counts
        counts["calls"] += 1
        try:
            score = await client.score(response, case.question)
        except UserError as error:
            self.found.wrong.append(f"no verdict: {error}")
            return
        counts["verdicts"] += 1
        counts["verdicts on 10 MB"] += large
        counts["requests repeated"] += score.effort.retries
        counts["waits for a busy server"] += score.effort.busy_waits
        counts["lost workers"] += score.effort.infra_errors
        self.found.judge(case, score.outcome)
        if repeated and not large and self._repeated.setdefault(number, score) != score:
            self.found.wrong.append(f"{score} after {self._repeated[number]}: {case.question} {case.response!r}")

    async def _kill_first(self) -> None:
        while time.monotonic() + FLEET_KILL_SECONDS < self._ends:  # requests in progress at the end may finish
            await asyncio.sleep(FLEET_KILL_SECONDS - DOWN_SECONDS)
            self._processes[0].kill()
            await asyncio.to_thread(self._processes[0].wait)
            await asyncio.sleep(DOWN_SECONDS)
            await self._start_again(0)
            self.found.counts["servers killed"] += 1

    async def _end_second(self) -> None:
        await asyncio.sleep(self._seconds / 2)
        self._processes[1].terminate()
        await asyncio.to_thread(self._processes[1].wait)
        await self._start_again(1)
        self.found.counts["servers ended"] += 1

    async def _start_again(self, place: int) -> None:
        folder, port = self._folders[place], int(self._addresses[place].rpartition(":")[2])
        self._processes[place] = start(folder, self._scorers, port)
        await asyncio.to_thread(wait_for, folder, self._processes[place])

    async def _sample(self) -> None:
        started = time.monotonic()
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            with suppress(psutil.NoSuchProcess):
                self.found.sample_memory(psutil.Process(self._processes[1].pid))
                done = f"{time.monotonic() - started:5.0f} s, {self.found.counts['verdicts']:9,} verdicts"
                print(f"{done}, {len(self.found.wrong)} wrong, server {self.found.memory[-1][0]:6.1f} MB", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=40, help="default: 40")
    parser.add_argument("--fleet", action="store_true", help="two servers and training's clients, see above")
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
        if options.fleet:
            logging.disable(logging.WARNING)  # every client notices every end
            fleet = Fleet(root, scorers, 60 * options.minutes)
            asyncio.run(fleet.run())
            return 0 if fleet.found.report(options.minutes) else 1
        with serving(root, scorers=scorers) as server:
            soak = Soak(server, 60 * options.minutes)
            asyncio.run(soak.run())
            return 0 if soak.found.report(options.minutes) else 1


if __name__ == "__main__":
    sys.exit(main())
