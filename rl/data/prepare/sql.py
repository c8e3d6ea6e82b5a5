"""The BIRD and Spider commands: questions and database folders in, a parquet of rows out."""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from rl.common.errors import UserError
from rl.data.prepare.download import Input
from rl.data.prepare.inputs import read_json_list
from rl.data.prepare.prompt_template import fit_sql_prompt
from rl.data.prepare.row_writer import SQL_ROWS, BadRecord, RowWriter, row_id
from rl.data.prepare.schema import Schema, SchemaError, add_declared_keys, read_schema
from rl.data.prepare.token_budget import Budget
from rl.data.wording import first_of, number_of
from rl.scorer.databases import find_database
from rl.scorer.outcomes import UnknownQuestion

# A benchmark's name, which is also its rows' data_source and cmp_method, and the key of a record's gold query.
SQL_KEYS = {"bird": "SQL", "spider": "query"}
_TOO_LONG = "its prompt is above --max-prompt-tokens even without example values"


@dataclass(frozen=True)
class Record:
    """One record of the input files.

    Attributes:
        number: what its id is made from; any value of the file until _make_row has looked at it.
        position: in its file, from 0.
    """

    number: object
    file: Path
    position: int
    values: Any


class Databases:
    """The schemas of a benchmark's databases; each is read once.

    Args:
        options: of commands.bird_parser or spider_parser.
        declared: entries of Spider's tables.json by db_id.

    Raises:
        UserError: a folder does not exist, or one is not in the other.
    """

    def __init__(self, options: argparse.Namespace, declared: Mapping[str, Any]):
        folder, database_path = options.databases, options.database_path or options.databases
        self._folder, self._root = (Path(os.path.realpath(path)) for path in (folder, database_path))
        for path in (folder, database_path):
            if not path.is_dir():
                raise UserError(f"The database folder {path} does not exist: give the one with <db_id>/<db_id>.sqlite.")
        if not self._folder.is_relative_to(self._root):
            raise UserError(
                f"--databases {folder} is not below --database-path {database_path}: the scorer needs it so."
            )
        if options.example_values < 0:
            raise UserError(f"--example-values is {options.example_values}: give 0 or more.")
        self._example_values, self._seed, self._declared = options.example_values, options.seed, declared
        self._schemas: dict[str, Schema | BadRecord] = {}

    def schema(self, db_id: str) -> Schema:
        """
        Raises:
            BadRecord: there is no such database, or it cannot be read.
        """
        if db_id not in self._schemas:
            try:
                self._schemas[db_id] = self._read(db_id)
            except (SchemaError, UnknownQuestion) as error:
                self._schemas[db_id] = BadRecord(f"database {db_id}: {error}")
        found = self._schemas[db_id]
        if isinstance(found, BadRecord):
            raise BadRecord(str(found))
        return found

    def missing(self, db_ids: Iterable[str]) -> list[str]:
        """Those that have no file."""
        return [db_id for db_id in db_ids if not (self._folder / db_id / f"{db_id}.sqlite").is_file()]

    def scorer_id(self, db_id: str) -> str:
        """The database's path below the scorer's database_path."""
        return (self._folder / db_id / f"{db_id}.sqlite").relative_to(self._root).as_posix()

    def count_read(self) -> int:
        return sum(isinstance(found, Schema) for found in self._schemas.values())

    def _read(self, db_id: str) -> Schema:
        # The scorer's own search, so that a row's database is one that the scorer finds.
        database = find_database(self._root, self.scorer_id(db_id))
        schema = read_schema(database.uri, self._example_values, self._seed)
        return add_declared_keys(schema, self._declared[db_id]) if db_id in self._declared else schema


def prepare(benchmark: str, options: argparse.Namespace, declared: Mapping[str, Any]) -> str:
    """Write the parquet and return the summary.

    Args:
        benchmark: one of SQL_KEYS.
        options: of commands.bird_parser or spider_parser.
        declared: entries of Spider's tables.json by db_id; {}: none.

    Raises:
        UserError: an option or a file is wrong, or no record makes a row.
    """
    databases = Databases(options, declared)
    records = list(_number(options.input))
    _report_missing(databases, records, options.databases)
    budget = Budget(options.max_prompt_tokens, options.tokenizer)
    output = Path(str(options.output).replace("{split}", options.split))
    lengths, shortened = [], 0
    with RowWriter(output, SQL_ROWS, [Input(file) for file in options.input]) as writer:
        for record in tqdm(records, desc=f"{benchmark} {options.split}", unit="question"):
            try:
                row = _make_row(benchmark, options.split, record, databases, budget)
                writer.add(row)
            except BadRecord as error:
                kind = "its database cannot be used" if str(error).startswith("database ") else None
                about = record.values.get("question") if isinstance(record.values, Mapping) else record.values
                writer.reject(record.file, record.position, str(error), kind=kind, about=about)
                continue
            lengths.append(len(row["prompt"][0]["content"]))
            shortened += row["extra_info"]["tables_without_examples"] > 0
    measured = "estimated from the characters" if budget.estimated else "counted"
    return (
        f"{len(records)} questions, {databases.count_read()} databases; prompts of {median(lengths):.0f} characters "
        f"(median), {max(lengths)} (longest).\n"
        f"{shortened} prompts show fewer example values to stay within {budget.max_tokens} tokens ({measured}).\n"
        f"{writer.summary()}"
    )


def read_tables(path: Path) -> dict[str, Any]:
    """The entries of Spider's tables.json by db_id.

    Raises:
        UserError: the file cannot be read or is another one.
    """
    entries = read_json_list(path)
    for position, entry in enumerate(entries):
        if not isinstance(entry, Mapping) or not isinstance(entry.get("db_id"), str) or "foreign_keys" not in entry:
            raise UserError(f"{path} record {position} has no db_id with foreign_keys: give Spider's tables.json.")
    return {entry["db_id"]: entry for entry in entries}


def _number(files: Sequence[Path]) -> Iterator[Record]:
    """All records with their numbers: question_id where the records have one, else the position over all files."""
    first = 0
    for file in files:
        records = read_json_list(file)
        official = any(isinstance(values, Mapping) and "question_id" in values for values in records)
        for position, values in enumerate(records):
            number: object = first + position
            if official:
                number = values.get("question_id") if isinstance(values, Mapping) else None
            yield Record(number, file, position, values)
        first += len(records)


def _report_missing(databases: Databases, records: Sequence[Record], folder: Path) -> None:
    """Name the databases that the questions need and the folder lacks, before the first one is read.

    Raises:
        UserError: it has none of them.
    """
    values = [record.values for record in records if isinstance(record.values, Mapping)]
    questions = Counter(str(each["db_id"]).strip() for each in values if each.get("db_id"))
    missing = databases.missing(questions)
    files = first_of(f"{db_id}/{db_id}.sqlite" for db_id in missing)
    if missing and len(missing) == len(questions):
        raise UserError(
            f"--databases {folder} has none of the {number_of(len(questions), 'database')} that the questions name "
            f"({files}): give the folder with <db_id>/<db_id>.sqlite."
        )
    if missing:
        sys.stderr.write(
            f"--databases {folder} lacks {len(missing)} of the {number_of(len(questions), 'database')} that the "
            f"questions name ({files}): {number_of(sum(questions[db_id] for db_id in missing), 'question')} will be "
            "left out; stop here and give the folder that has all, if they should not.\n"
        )


def _make_row(benchmark: str, split: str, record: Record, databases: Databases, budget: Budget) -> dict[str, Any]:
    values, sql_key = record.values, SQL_KEYS[benchmark]
    if not isinstance(values, Mapping):
        raise BadRecord("it is no JSON object")
    for key in ("db_id", "question", sql_key):
        if not isinstance(values.get(key), str) or not values[key].strip():
            raise BadRecord(f"its {key} is missing or no text")
    db_id, evidence, difficulty = values["db_id"].strip(), values.get("evidence") or "", values.get("difficulty")
    if not isinstance(evidence, str):
        raise BadRecord("its evidence is no text")
    if "/" in db_id or "\\" in db_id or db_id in (".", ".."):
        raise BadRecord("its db_id is no name of a folder")
    if not isinstance(record.number, int) or isinstance(record.number, bool):
        raise BadRecord("its question_id is no whole number")
    id = row_id(benchmark, split, record.number)
    fitted = fit_sql_prompt(databases.schema(db_id), values["question"].strip(), evidence.strip(), budget.fits)
    if fitted is None:
        raise BadRecord(_TOO_LONG)
    content, tables_without_examples = fitted
    truth = {"db_id": databases.scorer_id(db_id), "gold_sql": values[sql_key].strip(), "cmp_method": benchmark}
    return {
        "data_source": benchmark,
        "prompt": [{"role": "user", "content": content}],
        "reward_model": {"style": "rule", "ground_truth": truth},
        "id": id,
        "extra_info": {
            "index": record.number,
            "split": split,
            "source": record.file.name,
            "question_id": values.get("question_id"),
            "difficulty": None if difficulty is None else str(difficulty),
            "tables_without_examples": tables_without_examples,
        },
    }
