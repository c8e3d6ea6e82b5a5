"""The demo's scorer server, on a free port of this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rl.cluster.scorer import temporary_scorer

REPOSITORY = Path(__file__).resolve().parents[2]


@contextmanager
def scorer_server(out: Path, databases: Path) -> Iterator[str]:
    """Run a scorer server; yields its address.

    Args:
        out: folder for its log (out/logs/scorer.log).
        databases: the folder that db_ids are relative to.

    Raises:
        UserError: it does not start.
    """
    log = out / "logs" / "scorer.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with temporary_scorer(REPOSITORY / "rl" / "scorer" / "sql.yaml", databases, log) as address:
        yield address
