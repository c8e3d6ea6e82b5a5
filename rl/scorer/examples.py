"""The example bodies in the server's own description (GET /openapi.json): they name a database that this server has."""

import json
from itertools import chain
from typing import Any

from rl.scorer.config import MathSettings, Settings, SqlSettings
from rl.scorer.sql.engines import ENGINES

_PROMPT = "What is 1?\n"
_ABSENT = "shop/shop.sqlite"


def examples_of(settings: Settings) -> dict[str, dict[str, Any]]:
    """An example body for each path that scores.

    An SQL question for the first section of SQLite databases; without one, a mathematical question if there is a
    section for those; else an SQL question about a database that does not exist.
    """
    sections = settings.Scorers.values()
    sqlite = next((of for of in sections if isinstance(of, SqlSettings) and of.engine == "sqlite"), None)
    if sqlite is None and any(isinstance(of, MathSettings) for of in sections):
        question, response = {"ground_truth": "1"}, r"\boxed{1}"
    else:
        question = {"db_id": _first_database(sqlite), "gold_sql": "SELECT 1", "cmp_method": "bird"}
        response = "```sql\nSELECT 1\n```"
    label = json.dumps(question)
    return {
        "/api": {"gen_responses": [response], "extra": question},
        "/v1/score": {"questions": [{"question": question, "responses": [response]}]},
        "/v1/openrlhf": {"query": [_PROMPT + response], "prompts": [_PROMPT], "labels": [label]},
        "/v1/slime": {"prompt": _PROMPT, "response": response, "label": label},
    }


def _first_database(section: SqlSettings | None) -> str:
    """The db_id of a database at most one folder below the section's."""
    if section is None or section.database_path is None:
        return _ABSENT
    root = section.database_path
    found = chain.from_iterable(
        root.glob(f"{below}*{suffix}") for below in ("", "*/") for suffix in ENGINES["sqlite"].suffixes
    )
    first = next(found, None)
    return _ABSENT if first is None else section.prefix + first.relative_to(root).as_posix()
