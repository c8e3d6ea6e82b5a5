"""Run gold queries, and read golds of math, with the server's scorers (audit.py)."""

import asyncio

from tqdm import tqdm

from rl.common.errors import UserError
from rl.common.outcomes import GOLD_FAILURES, INFRA_ERROR
from rl.scorer.audit import Gold
from rl.scorer.checks import check_scorers
from rl.scorer.config import MathSettings, ScorerSettings, Settings
from rl.scorer.fork_server import WorkerLost
from rl.scorer.math.scoring import MathQuestion
from rl.scorer.scorers import Scorers
from rl.scorer.sql.scoring import GoldCheck, scorer_of

# What the right answer of a mathematical problem is compared with.
_ANY_ANSWER = r"\boxed{0}"


def check_golds(golds: list[Gold], settings: Settings) -> dict[Gold, GoldCheck]:
    """The result of each gold."""
    sections: dict[str, ScorerSettings] = {}
    processes = next(iter(settings.Scorers.values())).num_instances
    if any(not gold.math for gold in golds):
        if not settings.sql:
            raise UserError("The configuration has no scorer for SQL; give another with --config.")
        sections |= {name: section for name, section in settings.Scorers.items() if section in settings.sql}
    if any(gold.math for gold in golds):
        given = {name: section for name, section in settings.Scorers.items() if isinstance(section, MathSettings)}
        sections |= given or {"(math)": MathSettings(class_name="MathRewardModel", num_instances=processes)}
    check_scorers(sections.items())
    scorers = Scorers(settings.model_copy(update={"Scorers": sections}))
    try:
        return asyncio.run(_check_all(golds, scorers, sum(section.processes for section in sections.values())))
    except WorkerLost as error:
        raise UserError(f"The audit cannot run: {error}.") from None


async def _check_all(golds: list[Gold], scorers: Scorers, at_once: int) -> dict[Gold, GoldCheck]:
    checks: dict[Gold, GoldCheck] = {}
    waiting = iter(golds)
    try:
        await scorers.start()
        with tqdm(total=len(golds), desc="gold queries", unit="query") as progress:

            async def one_after_another() -> None:
                for gold in waiting:
                    checks[gold] = await (_check_math if gold.math else _check_sql)(gold, scorers)
                    progress.update()

            await asyncio.gather(*(one_after_another() for _ in range(at_once)))
    finally:
        await scorers.close()
    return checks


async def _check_sql(gold: Gold, scorers: Scorers) -> GoldCheck:
    if gold.db_id is None:
        return GoldCheck("unknown_database", "the row has no db_id")
    scorer = scorer_of(scorers.by_kind.values(), gold.db_id)
    if scorer is None:
        return GoldCheck("unknown_database", "no scorer of the settings has a prefix of the db_id")
    return await scorer.check_gold(gold.db_id, gold.sql)


async def _check_math(gold: Gold, scorers: Scorers) -> GoldCheck:
    [score] = await scorers.by_kind["math"].score(MathQuestion(ground_truth=gold.sql), [_ANY_ANSWER])
    failed = score.outcome in (*GOLD_FAILURES, INFRA_ERROR)
    return GoldCheck(score.outcome, score.error) if failed else GoldCheck("gold")
