"""What predicted queries return, beside their samples: F.results of F.jsonl, a line for every query of a prompt.

The scorer keeps no results, so the queries that it could run are run once more, in its own workers with its limits, and
a digest of each result is stored. A run that was stopped goes on.
"""

import asyncio
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from rl.common.append_log import AppendLog
from rl.common.errors import UserError
from rl.data.sample_file import read_samples
from rl.scorer.config import SqlSettings
from rl.scorer.outcomes import INFRA_ERROR, UnknownQuestion
from rl.scorer.sql_scoring import SqlQuestion, SqlScorer

# Outcomes of the scorer that say that a query returned a result.
RAN = ("match", "partial", "mismatch")
_ATTEMPTS = 3

# (id of the prompt, sha256 of the query): sha256 of its result, None where it gave none now.
Results = dict[tuple[int, str], str | None]


def results_path(samples: Path) -> Path:
    """F.results beside F.jsonl."""
    return samples.with_suffix(".results")


def query_key(prompt: int, pred: str) -> tuple[int, str]:
    return prompt, hashlib.sha256(pred.encode("utf-8", "surrogatepass")).hexdigest()


def read_results(samples: Path) -> Results | None:
    """The stored results of a samples file, None where none are stored.

    Raises:
        UserError: a line is damaged.
    """
    path = results_path(samples)
    if not path.is_file():
        return None
    with open(path, "rb") as lines:
        results = [_parse(line) for line in lines]
    if None in results:
        raise UserError(f"{path} is damaged or not finished: evaluate again with evaluate.databases, it resumes.")
    return dict(results)


def store_results(samples: Path, questions: Mapping[int, Mapping[str, Any]], databases: Path) -> None:
    """Runs what F.results lacks.

    Args:
        samples: a finished samples file of SQL.
        questions: db_id, gold_sql and cmp_method of each prompt.
        databases: the scorer's database_path.

    Raises:
        UserError: the databases cannot be found or read, or the file cannot be written.
    """
    if not databases.is_dir():
        raise UserError(f"evaluate.databases={databases} is no folder: name the scorer's database_path.")
    queries = {
        query_key(record.id, record.pred): record.pred
        for record in read_samples(samples)
        if record.outcome in RAN and record.pred is not None
    }
    file = AppendLog(results_path(samples))
    try:
        done = {key for key, _ in file.read(_parse)}
        missing = {key: pred for key, pred in queries.items() if key not in done}
        if missing:
            asyncio.run(_run(file, missing, questions, databases, total=len(queries)))
    finally:
        file.close()


async def _run(file: AppendLog, queries: Mapping[tuple[int, str], str], questions, databases: Path, total: int) -> None:
    limits = SqlSettings.model_fields
    settings = SqlSettings(
        class_name="SqlRewardModel",
        database_path=databases,
        payload_rows=limits["max_result_rows"].default,  # whole results, not their first rows
        payload_bytes=limits["max_result_bytes"].default,
        answer_cache_bytes=0,  # no query is asked for twice
    )
    scorer = SqlScorer(settings)
    waiting = iter(queries.items())
    name = f"Results of {file.path.stem}"
    with tqdm(total=total, initial=total - len(queries), desc=name, unit="query") as progress:

        async def run_one_after_another() -> None:
            for key, pred in waiting:
                digest = await _result(scorer, questions[key[0]], pred)
                file.append(json.dumps({"id": key[0], "sql": key[1], "result": digest}).encode() + b"\n")
                progress.update()

        try:
            await scorer.pool.start()
            async with asyncio.TaskGroup() as group:
                for _ in range(2 * (os.cpu_count() or 1)):
                    group.create_task(run_one_after_another())
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures
        finally:
            await scorer.pool.close()


async def _result(scorer: SqlScorer, question: Mapping[str, Any], pred: str) -> str | None:
    asked = SqlQuestion(question["db_id"], question["gold_sql"], question["cmp_method"])
    for _ in range(_ATTEMPTS):
        try:
            (answer,) = await scorer.score(asked, [f"```sql\n{pred}\n```"])
        except UnknownQuestion as error:
            raise UserError(f"{error}: set evaluate.databases to the scorer's database_path.") from None
        if answer.outcome != INFRA_ERROR:
            return digest_of(json.loads(answer.payload), question["cmp_method"]) if answer.flag == "result" else None
    raise UserError(f"A query of {question['db_id']} could not be run ({answer.error}): run again, it resumes.")


def digest_of(rows: list[list[Any]], cmp_method: str) -> str:
    """One digest for equal results: as sets of rows for bird, as bags of rows for spider.

    1 equals 1.0, as the scorer has it. Other than the scorer's comparison for spider, columns stay in their order, and
    rows have none.
    """
    texts = sorted(json.dumps([_number(value) for value in row]) for row in rows)
    if cmp_method == "bird":
        texts = sorted(set(texts))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _parse(line: bytes) -> tuple[tuple[int, str], str | None] | None:
    try:
        content = json.loads(line)
        return (content["id"], content["sql"]), content["result"]
    except (ValueError, KeyError, TypeError):
        return None
