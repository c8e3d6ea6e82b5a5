"""Checks across files: shared ids and prompts, and ids that are missing in another file."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rl.common.errors import UserError
from rl.data.inspect.file_kinds import PROMPTS
from rl.data.inspect.file_report import FileReport
from rl.data.parquet_file import open_parquet
from rl.data.wording import named, number_of


def leaks(reports: Sequence[FileReport]) -> list[dict[str, Any]]:
    """Each pair of prompt files that share ids or prompt texts.

    Samples and stores hold the prompts that they were made from: they are compared with `check_against` instead.

    Returns:
        {"files": [a, b], "ids": number, "texts": number, "problem": a sentence} for each pair that shares any.
    """
    found = []
    for a, b in combinations([report for report in reports if report.kind.startswith(PROMPTS)], 2):
        ids = sorted(set(a.keys.ids) & set(b.keys.ids), key=str)
        texts, at, _ = np.intersect1d(_texts(a), _texts(b), return_indices=True)
        if not ids and not texts.size:
            continue
        shared = [f"{number_of(len(ids), 'id')} ({named(ids)})"] if ids else []
        if texts.size:
            example = a.keys.text_ids[at.min()]
            shared.append(f"{number_of(texts.size, 'prompt text')} (for example of id {example} in {a.path.name})")
        sentence = f"{a.path} and {b.path} share {' and '.join(shared)}."
        found.append({"files": [a.path, b.path], "ids": len(ids), "texts": int(texts.size), "problem": sentence})
    return found


def check_against(reports: Sequence[FileReport], parquet: Path) -> None:
    """Add to each report how its ids compare with those of a parquet of prompts.

    Raises:
        UserError: the parquet is none, or has no ids.
    """
    hint = "--against wants the parquet of prompts that the files are of"
    with open_parquet(parquet, ["id"], hint) as file:
        ids_there = file.read(["id"])["id"]
    if pa.types.is_nested(ids_there.type):
        raise UserError(f"{parquet} has ids of the type {ids_there.type}: {hint}.")
    known = set(ids_there.to_pylist())
    for report in reports:
        ids = dict.fromkeys(report.keys.ids)
        foreign = [id for id in ids if id not in known]
        report.facts["against"] = {
            "file": str(parquet),
            "ids in both": len(ids) - len(foreign),
            "only here": len(foreign),
            "only there": len(known) - len(ids) + len(foreign),
        }
        if foreign:
            report.problems.append(f"{number_of(len(foreign), 'id')} that {parquet} does not have ({named(foreign)}).")


def _texts(report: FileReport) -> np.ndarray:
    return np.frombuffer(report.keys.texts, dtype=np.uint64)
