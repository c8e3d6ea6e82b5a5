"""Spider 2.0-Lite's tasks on SQLite. A gold answer is one or more CSV files; a response may match any of them."""

import argparse
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rl.common.errors import UserError, file_errors
from rl.data.prepare.published import Record, read_records

_LOCAL = re.compile(r"local(\d+)")


def read_tasks(options: argparse.Namespace) -> tuple[list[Record], list[Path]]:
    """The tasks on SQLite files, whose instance_id begins with "local", as records with the key `gold`.

    Args:
        options: the options of spider2_lite_parser (commands.py).

    Returns:
        The records, and the files that were read beside --input: the rules and the documents.

    Raises:
        UserError: a file cannot be read, --gold is wrong or not below --database-path, or no task is local.
    """
    root = Path(os.path.realpath(options.database_path or options.databases))
    results = Path(os.path.realpath(options.gold / "exec_result"))
    if not results.is_dir():
        raise UserError(f"--gold {options.gold} has no folder exec_result: give evaluation_suite/gold.")
    if not results.is_relative_to(root):
        raise UserError(f"--gold {options.gold} is not below --database-path {root}: the scorer reads nothing else.")
    rules_file = options.gold / "spider2lite_eval.jsonl"
    documents: dict[Path, str] = {}  # their texts
    rules = {
        rule["instance_id"]: rule
        for rule in read_records(rules_file)
        if isinstance(rule, Mapping) and isinstance(rule.get("instance_id"), str)
    }
    names = sorted(path.name for path in results.glob("*.csv"))
    records = []
    [file] = options.input
    for position, task in enumerate(read_records(file)):
        local = _LOCAL.fullmatch(str(task.get("instance_id"))) if isinstance(task, Mapping) else None
        if local is None:
            continue
        # <id>.csv, or several files <id>_a.csv, <id>_b.csv, ..., as Spider 2.0's evaluate.py finds them.
        files = [name for name in names if re.fullmatch(rf"{local[0]}(_[a-z])?\.csv", name)]
        gold = _gold(files, results.relative_to(root), rules.get(local[0], {}))
        evidence = task.get("external_knowledge") or ""
        if evidence and isinstance(evidence, str):  # else the record is left out for it
            path = _document_path(options.documents, evidence)
            documents[path] = evidence = _read_document(path)
        values = {"db_id": task.get("db"), "question": task.get("question"), "gold": gold, "evidence": evidence}
        records.append(Record(int(local[1]), file, position, values))
    if not records:
        raise UserError(f"{file} has no instance_id like local003: give spider2-lite.jsonl.")
    return records, [rules_file, *documents]


def _gold(files: Sequence[str], folder: Path, rule: Mapping[str, Any]) -> str | None:
    """The scorer's text for stored results (rl/scorer/sql/stored.py); None without files, and for another rule."""
    columns = [] if rule.get("condition_cols") is None else rule["condition_cols"]
    nested = bool(columns) and isinstance(columns, list) and all(isinstance(part, list) for part in columns)
    per_file = columns if nested else [columns] * len(files)
    if not files or len(per_file) != len(files) or not all(map(_are_positions, per_file)):
        return None
    stored = [{"file": (folder / name).as_posix(), "columns": of} for name, of in zip(files, per_file, strict=True)]
    return json.dumps({"results": stored, "ignore_order": bool(rule.get("ignore_order"))})


def _are_positions(columns: Any) -> bool:
    return isinstance(columns, list) and all(type(column) is int for column in columns)


def _document_path(folder: Path | None, name: str) -> Path:
    if folder is None:
        raise UserError(f"A task refers to {name}: give --documents, the folder resource/documents of spider2-lite.")
    return folder / Path(name).name


def _read_document(path: Path) -> str:
    with file_errors(path, "read", "give resource/documents of spider2-lite with --documents"):
        return path.read_text(encoding="utf-8")
