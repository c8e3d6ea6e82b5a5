"""What predicted SQL returned: the digest that the scorer gave with the score, or F.results of F.jsonl.

Samples of earlier versions have no digests; evaluate.databases of those versions stored them in F.results, a line for
every query of a prompt.
"""

import hashlib
import json
from pathlib import Path

from rl.common.errors import UserError
from rl.common.outcomes import COMPARED
from rl.data.sample_file import SampleRecord

UNKNOWN = "unknown"

# (id of the prompt, sha256 of the query): digest of its result, None if it gave none when it was run again.
StoredResults = dict[tuple[int, str], str | None]


def stored_results(samples: Path) -> StoredResults:
    """F.results beside F.jsonl; empty if there is none.

    Raises:
        UserError: a line is damaged.
    """
    path = samples.with_suffix(".results")
    if not path.is_file():
        return {}
    try:
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        return {(line["id"], line["sql"]): line["result"] for line in lines}
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path} is damaged or not finished: delete it to compare SQL by its syntax.") from None


def result_of(record: SampleRecord, stored: StoredResults) -> str | None:
    """The digest of what a query returned; None for one that gave no result, UNKNOWN if there is no digest of it."""
    if record.pred is None or record.outcome not in COMPARED:
        return None
    query = hashlib.sha256(record.pred.encode("utf-8", "surrogatepass")).hexdigest()
    return record.result_digest or stored.get((record.id, query), UNKNOWN)
