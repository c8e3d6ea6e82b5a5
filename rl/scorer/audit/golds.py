"""Reads the questions of parquet files and checks each distinct gold answer once, in the scorer's own workers."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from rl.common.errors import UserError
from rl.common.outcomes import GOLD_FAILURES, INFRA_ERROR
from rl.scorer.checks import check_scorers
from rl.scorer.config import MathSettings, Settings
from rl.scorer.math.scoring import MathQuestion, MathScorer
from rl.scorer.process import WorkerLost
from rl.scorer.sql.scoring import GoldCheck, SqlScorer, scorer_of

_ROW_COLUMNS = ["id", "data_source", "reward_model"]
_ROWS_PER_BATCH = 1024
# What the right answer of a mathematical problem is compared with.
_ANY_ANSWER = r"\boxed{0}"


class Gold(NamedTuple):
    """What is run, or compared. Problems with equal ones are checked once. sql: or the answer of a problem, if math."""

    db_id: str | None
    sql: str
    math: bool = False


class Problem(NamedTuple):
    """The row at `position` (from 0) of its file."""

    id: int | str
    file: str
    position: int
    gold: Gold


class Finding(NamedTuple):
    """What running a problem's gold gave: the fields of GoldCheck."""

    problem: Problem
    outcome: str
    seconds: float
    error: str | None


@dataclass
class Dataset:
    """The content of all files. rows: how many. other: how many are neither SQL nor math, by data_source."""

    rows: int = 0
    problems: list[Problem] = field(default_factory=list)
    other: Counter = field(default_factory=Counter)


def read_dataset(files: list[Path]) -> Dataset:
    """The rows of `files`, in order: reward_model.ground_truth has a gold_sql, or is the answer of a math problem.

    Raises UserError for an unreadable file, a missing column, and when no row is such a question.
    """
    dataset = Dataset()
    for file in files:
        for position, row in enumerate(_rows(file)):
            dataset.rows += 1
            truth = row["reward_model"].get("ground_truth") if isinstance(row["reward_model"], dict) else None
            if isinstance(truth, dict) and truth.get("gold_sql") is not None:
                db_id = None if truth.get("db_id") is None else str(truth["db_id"])
                gold = Gold(db_id, str(truth["gold_sql"]))
                dataset.problems.append(Problem(_id(row), str(file), position, gold))
            elif isinstance(truth, str) and not str(row["data_source"]).startswith("task:"):
                dataset.problems.append(Problem(_id(row), str(file), position, Gold(None, truth, math=True)))
            else:
                dataset.other[str(row["data_source"])] += 1
    if not dataset.problems:
        sources = ", ".join(dataset.other) or "no rows"
        raise UserError(
            f"{', '.join(map(str, files))}: none of {dataset.rows} rows is a question ({sources}); give a parquet with "
            "db_id and gold_sql, or the answer of a mathematical problem, as reward_model.ground_truth."
        )
    return dataset


def _id(row: dict) -> int | str:
    return row["id"] if isinstance(row["id"], int) else str(row["id"])


def _rows(file: Path) -> Iterator[dict]:
    try:
        from rl.common.parquet_file import open_parquet, rows_in
    except ModuleNotFoundError:  # a server does without Arrow
        raise UserError("The audit reads parquet with pyarrow; install it: pip install '.[audit]'.") from None
    with open_parquet(file, _ROW_COLUMNS, "make it with the project's data scripts") as parquet:
        yield from rows_in(parquet, _ROW_COLUMNS, _ROWS_PER_BATCH)


def check(problems: Iterable[Problem], settings: Settings) -> list[Finding]:
    """A finding for each problem, in order. Raises UserError if the settings or the workers do not work."""
    golds = dict.fromkeys(problem.gold for problem in problems)
    scorers: list[SqlScorer | MathScorer] = []
    if any(not gold.math for gold in golds):
        if not settings.sql:
            raise UserError("The configuration has no scorer for SQL; give another with --config.")
        check_scorers(item for item in settings.Scorers.items() if item[1] in settings.sql)
        scorers += [SqlScorer(section) for section in settings.sql]
        processes = settings.sql[0].processes
    if any(gold.math for gold in golds):
        sections = [section for section in settings.Scorers.values() if isinstance(section, MathSettings)]
        workers = settings.sql[0].num_instances if settings.sql else None
        default = MathSettings(class_name="MathRewardModel", num_instances=workers)
        section = sections[0] if sections else default
        scorers.append(MathScorer(section))
        processes = section.processes
    try:
        checks = asyncio.run(_check(list(golds), scorers, processes))
    except WorkerLost as error:
        raise UserError(f"The audit cannot run: {error}.") from None
    found = ((problem, checks[problem.gold]) for problem in problems)
    return [Finding(problem, check.outcome, check.seconds, check.error) for problem, check in found]


async def _check(golds: list[Gold], scorers: list[SqlScorer | MathScorer], processes: int) -> dict[Gold, GoldCheck]:
    """The result of each gold."""
    checks: dict[Gold, GoldCheck] = {}
    waiting = iter(golds)
    try:
        await asyncio.gather(*(scorer.pool.start() for scorer in scorers))
        with tqdm(total=len(golds), desc="gold queries", unit="query") as progress:

            async def one_after_another() -> None:
                for gold in waiting:
                    checks[gold] = await _check_one(gold, scorers)
                    progress.update()

            # One for each worker, so that the seconds do not include waiting.
            await asyncio.gather(*(one_after_another() for _ in range(processes)))
    finally:
        await asyncio.gather(*(scorer.pool.close() for scorer in scorers))
    return checks


async def _check_one(gold: Gold, scorers: list[SqlScorer | MathScorer]) -> GoldCheck:
    if gold.math:
        return await _check_math(gold.sql, next(scorer for scorer in scorers if isinstance(scorer, MathScorer)))
    if gold.db_id is None:
        return GoldCheck("unknown_database", error="the row has no db_id")
    scorer = scorer_of([scorer for scorer in scorers if isinstance(scorer, SqlScorer)], gold.db_id)
    if scorer is None:
        return GoldCheck("unknown_database", error="no scorer of the settings has a prefix of the db_id")
    return await scorer.check_gold(gold.db_id, gold.sql)


async def _check_math(answer: str, scorer: MathScorer) -> GoldCheck:
    started = time.monotonic()
    [score] = await scorer.score(MathQuestion(ground_truth=answer), [_ANY_ANSWER])
    seconds = time.monotonic() - started
    if score.outcome not in (*GOLD_FAILURES, INFRA_ERROR):
        return GoldCheck("gold", seconds)
    return GoldCheck(score.outcome, seconds, json.loads(score.payload))
