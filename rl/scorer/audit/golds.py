"""Reads the questions of parquet files and runs each distinct gold query once, in the scorer's own workers."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from rl.common.errors import UserError
from rl.scorer.checks import check_scorers
from rl.scorer.config import Settings
from rl.scorer.process import WorkerLost
from rl.scorer.sql.scoring import GoldCheck, SqlScorer, scorer_of

_ROW_COLUMNS = ["id", "data_source", "reward_model"]
_ROWS_PER_BATCH = 1024


class Gold(NamedTuple):
    """What is run. Problems with equal ones are checked once."""

    db_id: str | None
    sql: str


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
    """The content of all files. rows: how many. other: how many are not SQL questions, by data_source."""

    rows: int = 0
    problems: list[Problem] = field(default_factory=list)
    other: Counter = field(default_factory=Counter)


def read_dataset(files: list[Path]) -> Dataset:
    """The rows of `files`, in order: an SQL question is one whose reward_model.ground_truth has a gold_sql.

    Raises UserError for an unreadable file, a missing column, and when no row is an SQL question.
    """
    dataset = Dataset()
    for file in files:
        for position, row in enumerate(_rows(file)):
            dataset.rows += 1
            truth = row["reward_model"].get("ground_truth") if isinstance(row["reward_model"], dict) else None
            if isinstance(truth, dict) and truth.get("gold_sql") is not None:
                row_id = row["id"] if isinstance(row["id"], int) else str(row["id"])
                db_id = None if truth.get("db_id") is None else str(truth["db_id"])
                gold = Gold(db_id, str(truth["gold_sql"]))
                dataset.problems.append(Problem(row_id, str(file), position, gold))
            else:
                dataset.other[str(row["data_source"])] += 1
    if not dataset.problems:
        sources = ", ".join(dataset.other) or "no rows"
        raise UserError(
            f"{', '.join(map(str, files))}: none of {dataset.rows} rows is an SQL question ({sources}); give a parquet "
            "whose reward_model.ground_truth has db_id and gold_sql."
        )
    return dataset


def _rows(file: Path) -> Iterator[dict]:
    try:
        from rl.common.parquet_file import open_parquet, rows_in
    except ModuleNotFoundError:  # a server does without Arrow
        raise UserError("The audit reads parquet with pyarrow; install it: pip install '.[audit]'.") from None
    with open_parquet(file, _ROW_COLUMNS, "make it with the project's data scripts") as parquet:
        yield from rows_in(parquet, _ROW_COLUMNS, _ROWS_PER_BATCH)


def check(problems: Iterable[Problem], settings: Settings) -> list[Finding]:
    """A finding for each problem, in order. Raises UserError if the settings or the workers do not work."""
    if not settings.sql:
        raise UserError("The configuration has no scorer for SQL; give another with --config.")
    check_scorers(item for item in settings.Scorers.items() if item[1] in settings.sql)
    golds = dict.fromkeys(problem.gold for problem in problems)
    try:
        checks = asyncio.run(_check(list(golds), [SqlScorer(section) for section in settings.sql]))
    except WorkerLost as error:
        raise UserError(f"The audit cannot run: {error}.") from None
    found = ((problem, checks[problem.gold]) for problem in problems)
    return [Finding(problem, check.outcome, check.seconds, check.error) for problem, check in found]


async def _check(golds: list[Gold], scorers: list[SqlScorer]) -> dict[Gold, GoldCheck]:
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
            await asyncio.gather(*(one_after_another() for _ in range(scorers[0].settings.processes)))
    finally:
        await asyncio.gather(*(scorer.pool.close() for scorer in scorers))
    return checks


async def _check_one(gold: Gold, scorers: list[SqlScorer]) -> GoldCheck:
    if gold.db_id is None:
        return GoldCheck("unknown_database", error="the row has no db_id")
    scorer = scorer_of(scorers, gold.db_id)
    if scorer is None:
        return GoldCheck("unknown_database", error="no scorer of the settings has a prefix of the db_id")
    return await scorer.check_gold(gold.db_id, gold.sql)
