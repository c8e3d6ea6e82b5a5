"""Checks across files: shared ids and prompts, and ids that are missing in another file."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

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
        ids = sorted(a.ids.keys() & b.ids.keys(), key=str)
        texts = [id for text, id in a.texts.items() if text in b.texts]
        shared = [f"{number_of(len(ids), 'id')} ({named(ids)})"] if ids else []
        if texts:
            shared.append(f"{number_of(len(texts), 'prompt text')} (for example of id {texts[0]} in {a.path.name})")
        if shared:
            sentence = f"{a.path} and {b.path} share {' and '.join(shared)}."
            found.append({"files": [a.path, b.path], "ids": len(ids), "texts": len(texts), "problem": sentence})
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
        foreign = [id for id in report.ids if id not in known]
        both = len(report.ids) - len(foreign)
        report.facts["against"] = {
            "file": str(parquet),
            "ids in both": both,
            "only here": len(foreign),
            "only there": len(known) - both,
        }
        if foreign:
            report.problems.append(f"{number_of(len(foreign), 'id')} that {parquet} does not have ({named(foreign)}).")
