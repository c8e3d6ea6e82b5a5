"""What must not hold up the server's event loop, which answers every other request and the heartbeat."""

import asyncio
import threading
from pathlib import Path

import pytest

from rl.scorer import math_scoring, sql_scoring
from rl.scorer.config import MathSettings, SqlSettings
from rl.scorer.math_scoring import MathQuestion, MathScorer
from rl.scorer.sql.question import SqlQuestion
from rl.scorer.sql_scoring import SqlScorer
from tests.scorer.conftest import fenced, make_shop, running

LONG = "x" * 1_000_000


def threads_of(module: object, name: str, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The threads in which a function of the module is called from here on."""
    function, seen = getattr(module, name), set()

    def called(*arguments: object) -> object:
        seen.add(threading.get_ident())
        return function(*arguments)

    monkeypatch.setattr(module, name, called)
    return seen


def test_sql_is_read_and_its_file_looked_up_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text may be megabytes of quotes, the file on a server that does not answer."""
    make_shop(tmp_path / "shop" / "shop.sqlite")
    functions = ("read_sql", "repair", "find_database")
    seen = [threads_of(sql_scoring, name, monkeypatch) for name in functions]
    scorer = SqlScorer(SqlSettings(class_name="SqlRewardModel", database_path=tmp_path, num_instances=1))
    question = SqlQuestion(db_id="shop/shop.sqlite", gold_sql="SELECT 1", cmp_method="bird")

    async def scenario() -> list:
        async with running(scorer):
            return await scorer.score(question, [LONG + fenced("SELECT 1"), "none"])

    assert [score.outcome for score in asyncio.run(scenario())] == ["match", "no_answer"]
    assert all(seen) and not any(threading.get_ident() in threads for threads in seen)


def test_long_math_responses_are_read_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = threads_of(math_scoring, "read_answer", monkeypatch)
    scorer = MathScorer(MathSettings(class_name="MathRewardModel", num_instances=1))
    scores = asyncio.run(scorer.score(MathQuestion(ground_truth="5"), [LONG, LONG]))
    assert [score.outcome for score in scores] == ["no_answer"] * 2
    assert seen and threading.get_ident() not in seen
