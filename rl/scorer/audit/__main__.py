"""The gold audit as a program: `dph audit`, `python -m rl.scorer.audit`; options.py describes its options."""

import argparse
import asyncio
import logging
import sys
from collections import Counter

from tqdm import tqdm

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.scorer.audit.check import Finding, Query, check
from rl.scorer.audit.options import parser
from rl.scorer.audit.problems import read_problems
from rl.scorer.audit.report import check_out, summary, table, write
from rl.scorer.config import SqlSettings, load_settings
from rl.scorer.process import WorkerLost

_REFRESH_SECONDS = 1.0


def main(arguments: list[str] | None = None) -> int:
    """Run the audit and return its exit code."""
    options = parser().parse_args(arguments)
    # That a worker was killed for its time is in the table.
    logging.getLogger("rl.scorer").setLevel(logging.ERROR)
    with user_errors_exit():
        try:
            return _audit(options)
        except WorkerLost as error:
            sys.stderr.write(f"The audit cannot run: {error}.\n")
            return 1


def _audit(options: argparse.Namespace) -> int:
    settings = _settings(options)
    check_out(options.out)
    dataset = read_problems(options.files)
    queries = list(dict.fromkeys(problem.query for problem in dataset.problems))
    findings = _check_with_progress(settings, queries)
    rows = table(dataset.problems, findings)
    write(rows, options.out)
    sys.stdout.write(summary(dataset, findings))
    sys.stdout.write(f"Wrote {len(rows)} rows to {options.out}.\n")
    unchecked = sum(finding.outcome == "infra_error" for finding in findings.values())
    if unchecked:
        sys.stderr.write(f"{unchecked} queries could not be checked (infra_error in the table); run the audit again.\n")
    return 1 if unchecked else 0


def _settings(options: argparse.Namespace) -> SqlSettings:
    settings = load_settings(options.config, None, None, options.database_path).sql
    if settings is None:
        raise UserError(f"The configuration {options.config} has no scorer for SQL; give another with --config.")
    given = {"num_instances": options.num_instances, "gold_seconds": options.gold_seconds}
    return settings.model_copy(update={name: value for name, value in given.items() if value is not None})


def _check_with_progress(settings: SqlSettings, queries: list[Query]) -> dict[Query, Finding]:
    outcomes: Counter[str] = Counter()
    with tqdm(total=len(queries), desc="gold queries", unit="query", smoothing=0.1) as progress:

        def done(finding: Finding) -> None:
            outcomes[finding.outcome] += 1
            progress.set_postfix(outcomes, refresh=False)
            progress.update()

        async def check_and_refresh() -> dict[Query, Finding]:
            refreshing = asyncio.create_task(_refresh(progress))
            try:
                return await check(settings, queries, done)
            finally:
                refreshing.cancel()

        return asyncio.run(check_and_refresh())


async def _refresh(progress: tqdm) -> None:
    """Let the bar go on while a query runs for a minute."""
    while True:
        await asyncio.sleep(_REFRESH_SECONDS)
        progress.refresh()


if __name__ == "__main__":
    sys.exit(main())
