"""The questions behind a split's samples, from its data files: text, reference answer and groups.

Questions are grouped by the values of a key of extra_info, such as "ambiguous" or "difficulty". If a key has two to
four values in a split, report.json has results for each value. The value true is named like the key; false and none
are "plain".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rl.common.errors import UserError
from rl.common.fingerprint import file_sha256
from rl.common.parquet_file import open_parquet
from rl.data.prepare.prompt_template import question_of

PLAIN = "plain"
# Keys with more values, such as a template's name, are filters of the question browser only.
MOST_VALUES = 4
# The levels of BIRD and Spider, from easy to hard. Other values follow, sorted by name, and PLAIN is last.
_LEVELS = ("simple", "easy", "moderate", "medium", "challenging", "hard", "extra")
_COLUMNS = ("id", "prompt", "reward_model")
_HINT = "name the data files that were sampled"


@dataclass(frozen=True)
class Questions:
    """The questions of one split, in the order of its samples' ids. P questions."""

    texts: list[str]  # [P]
    references: list[str]  # [P], the reference SQL or answer
    groups: dict[str, list[str]]  # {key: [P] values}
    databases: frozenset[str] = frozenset()  # db_ids of SQL

    def few_valued(self) -> dict[str, dict[str, np.ndarray]]:
        """{key: {value: [P] bool}} of the keys with two to MOST_VALUES values."""
        found = {}
        for key, values in self.groups.items():
            names = sorted(set(values), key=_rank)
            if 2 <= len(names) <= MOST_VALUES:
                found[key] = {name: np.array([value == name for value in values]) for name in names}
        return found


def read_questions(files: Sequence[Path], ids: np.ndarray, groups: Sequence[str]) -> Questions:
    """The questions of these ids.

    Args:
        files: parquet in the row format.
        ids: [P] int64, of the samples.
        groups: keys of extra_info; one that no row has is left out.
    """
    rows = {row["id"]: row for file in files for row in _rows(file)}
    missing = [int(id) for id in ids if id not in rows]
    if missing:
        raise UserError(
            f"{', '.join(map(str, files))} lacks {len(missing)} of the {len(ids)} sampled questions, the first with id "
            f"{missing[0]}: {_HINT}."
        )
    wanted = [rows[int(id)] for id in ids]
    infos, truths = [_info(row) for row in wanted], [_truth(row) for row in wanted]
    return Questions(
        texts=[_text(row["prompt"]) for row in wanted],
        references=[str(truth.get("gold_sql", "")) for truth in truths],
        groups={key: [_value(key, info.get(key)) for info in infos] for key in _occurring(infos, groups)},
        databases=frozenset(truth["db_id"] for truth in truths if truth.get("db_id")),
    )


def are_those_sampled(files: Sequence[Path], sampled: Mapping[str, str]) -> bool:
    """Whether the files are those that samples were drawn from: {path: SHA-256} of their metadata, empty if unknown."""
    return not sampled or {file_sha256(file) for file in files} <= {*sampled.values()}


def groups_of(files: Sequence[Path], keys: Sequence[str]) -> list[str]:
    """The keys that some row's extra_info has a value for."""
    return _occurring([_info(row) for file in files for row in _rows(file, ())], keys)


def _info(row: dict[str, Any]) -> Mapping[str, Any]:
    """A row's extra_info; empty if the row has none, or has a text there."""
    info = row.get("extra_info")
    return info if isinstance(info, Mapping) else {}


def _occurring(infos: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[str]:
    return [key for key in keys if any(not _is_missing(info.get(key)) for info in infos)]


def _is_missing(value: Any) -> bool:
    """Whether it is None, or pandas' NaN for None in a column of numbers."""
    return value is None or value != value


def _rows(file: Path, columns: Sequence[str] = _COLUMNS) -> list[dict[str, Any]]:
    with open_parquet(file, columns, _HINT) as parquet:
        present = [name for name in (*columns, "extra_info") if name in parquet.schema_arrow.names]
        return parquet.read(columns=present).to_pylist()


def _text(messages: list[dict[str, str]]) -> str:
    """The question in the user's last message."""
    return question_of(next((m["content"] for m in reversed(messages) if m["role"] == "user"), ""))


def _truth(row: dict[str, Any]) -> Mapping[str, Any]:
    """The ground truth; one that is not an object, as if it were the query of SQL."""
    truth = (row["reward_model"] or {}).get("ground_truth")
    return truth if isinstance(truth, dict) else {} if truth is None else {"gold_sql": truth}


def _rank(value: str) -> tuple[bool, int, str]:
    return value == PLAIN, _LEVELS.index(value) if value in _LEVELS else len(_LEVELS), value


def _value(key: str, value: Any) -> str:
    if _is_missing(value) or value is False:
        return PLAIN
    return key if value is True else str(value)
