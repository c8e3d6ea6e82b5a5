"""The gold audit as a program: `dph audit` or `python -m rl.scorer.audit`."""

import argparse
import asyncio
import logging
import sys
from collections import Counter
from pathlib import Path

from tqdm import tqdm

from rl.common.append_log import AppendLog
from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.common.outcomes import INFRA_ERROR
from rl.scorer.audit.check import Checker, Findings
from rl.scorer.audit.options import drop_for, parser
from rl.scorer.audit.problems import Dataset, Problem, read_problems
from rl.scorer.audit.report import check_out, entries, summary, write_table, write_without
from rl.scorer.checks import check_scorers
from rl.scorer.config_file import load_settings
from rl.scorer.databases import find_database
from rl.scorer.outcomes import UnknownQuestion
from rl.scorer.process import WorkerLost
from rl.scorer.sql.compare import STORED
from rl.scorer.sql.scoring import GoldCheck

_REFRESH_SECONDS = 1.0


def main(arguments: list[str] | None = None) -> int:
    """Run the audit and return its exit code."""
    options = parser().parse_args(arguments)
    # The table has queries that took too long; their killed workers need no warning.
    logging.getLogger("rl.scorer").setLevel(logging.ERROR)
    with user_errors_exit():
        try:
            return _audit(options)
        except WorkerLost as error:
            sys.stderr.write(f"Error: the audit cannot run: {error}.\n")
            return 1


def _audit(options: argparse.Namespace) -> int:
    dropped = drop_for(options, drop="drop", unseen=not options.doubts)
    given = {name: getattr(options, name) for name in ("database_path", "num_instances", "gold_seconds")}
    all_settings = load_settings(options.config, sql=given)
    settings = all_settings.sql
    if not settings:
        raise UserError(f"The configuration {options.config} has no scorer for SQL; give another with --config.")
    check_scorers(item for item in all_settings.Scorers.items() if item[1] in settings)
    out = options.out or options.files[0].with_name(f"{options.files[0].stem}.gold_audit.csv")
    dataset = read_problems(options.files)
    check_out(options.files, out, options.drop)
    root = next((section.database_path for section in settings if not section.prefix), None)
    if root is not None and len(settings) == 1:
        _check_databases(dataset, root, settings[0].engine)
    journal = AppendLog(out.with_name(f"{out.name}.progress"))
    unchecked = None
    try:
        checker = Checker(settings, options.doubts, journal)
        if checker.recalled:
            sys.stderr.write(f"Resuming: {checker.recalled} queries were checked before ({journal.path}).\n")
        findings, contradicted = _check_with_progress(checker, dataset.problems)
        found = entries(dataset.problems, findings, contradicted)
        write_table(found, out)
        unchecked = sum(finding.outcome == INFRA_ERROR for finding in findings.values()) + checker.uncompared
    finally:
        # A stopped audit keeps its findings for the next one.
        (journal.delete if unchecked == 0 or not journal.size else journal.close)()
    sys.stdout.write(summary(dataset, findings, found, root))
    sys.stdout.write(f"Wrote {len(found)} rows to {out}.\n")
    if unchecked:
        unwritten = f", and {options.drop} is not written" if options.drop else ""
        sys.stderr.write(
            f"Error: {unchecked} queries could not be checked (infra_error in the table){unwritten}; run the audit "
            "again.\n"
        )
        return 1
    if options.drop is not None:
        sys.stdout.write(write_without(found, dropped, options.files[0], options.drop))
    return 0


def _check_databases(dataset: Dataset, root: Path, engine: str) -> None:
    """Raise UserError if none of the databases exists, because then the folder must be wrong."""
    db_ids = dict.fromkeys(problem.query.db_id for problem in dataset.problems if problem.query.db_id is not None)
    for db_id in db_ids:
        try:
            find_database(root.resolve(), db_id, engine)
        except UnknownQuestion:
            continue
        return
    if db_ids:
        raise UserError(
            f"None of the {len(db_ids)} databases of the rows, such as {next(iter(db_ids))}, is below {root}; pass "
            "--database-path DIR, the folder of the db_ids."
        )


def _check_with_progress(checker: Checker, problems: list[Problem]) -> tuple[Findings, dict[Problem, str]]:
    """The finding of every query, and a reason for each problem that another one contradicts."""
    queries = list(dict.fromkeys(problem.query for problem in problems))
    outcomes: Counter[str] = Counter()
    with tqdm(total=len(queries), desc="gold queries", unit="query", smoothing=0.1) as progress:

        def done(finding: GoldCheck) -> None:
            outcomes.update((finding.outcome, *finding.doubts))
            progress.set_postfix(outcomes, refresh=False)
            progress.update()

        async def check() -> tuple[Findings, dict[Problem, str]]:
            refreshing = asyncio.create_task(_refresh(progress))
            try:
                async with checker:
                    findings = await checker.check(queries, done)
                    return findings, await _contradicted(checker, problems, findings) if checker.doubts else {}
            finally:
                refreshing.cancel()

        return asyncio.run(check())


async def _contradicted(checker: Checker, problems: list[Problem], findings: Findings) -> dict[Problem, str]:
    """A sentence for each problem whose gold differs in its result from a problem of the same prompt and database."""
    asked: dict[tuple, list[Problem]] = {}
    for problem in problems:
        if problem.prompt is not None and findings[problem.query].outcome in ("gold", "empty", "all_null"):
            asked.setdefault((problem.query.db_id, problem.query.method, problem.prompt), []).append(problem)
    pairs = {
        (same[0].query, other.query.gold_sql)
        for same in asked.values()
        for other in same[1:]
        if other.query.gold_sql != same[0].query.gold_sql and other.query.method != STORED
    }
    outcomes = await checker.differing(sorted(pairs))
    found: dict[Problem, str] = {}
    for same in asked.values():
        unlike = [problem for problem in same if (same[0].query, problem.query.gold_sql) in outcomes]
        # Those that agree with the first differ from these too.
        for problem in same if unlike else []:
            other = same[0] if problem in unlike else unlike[0]
            found[problem] = f"the gold of id {other.id}, with the same prompt, returns something else"
    return found


async def _refresh(progress: tqdm) -> None:
    """Update the bar even while a query runs for a minute."""
    while True:
        await asyncio.sleep(_REFRESH_SECONDS)
        progress.refresh()
