"""The SQL benchmarks' commands: they read questions and databases, and write a parquet of rows."""

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from tqdm import tqdm

from rl.common.errors import UserError
from rl.common.text import named, number_of
from rl.data.benchmarks import SqlDataset
from rl.data.prepare.prompt_template import fit_sql_prompt
from rl.data.prepare.published import Input, Record, read_json_list, read_records
from rl.data.prepare.row_writer import SQL_ROWS, BadRecord, RowWriter, row_id
from rl.data.prepare.schema import Layout, Schema, SchemaError, add_declared_keys, read_schema
from rl.data.tokenizer import Budget
from rl.scorer.databases import DatabaseUnreadable, find_database
from rl.scorer.outcomes import UnknownQuestion

# The scorer's db_id of a database that is not a SQLite file.
_SCORER_ID = "postgresql/{db_id}"


class Databases:
    """The schemas of a benchmark's databases; each is read once.

    Args:
        options: the options of the command's parser (commands.py).
    """

    def __init__(self, benchmark: SqlDataset, options: argparse.Namespace):
        self._benchmark, self._options = benchmark, options
        folder, database_path = options.databases, options.database_path or options.databases
        self._folder, self._root = (Path(os.path.realpath(path)) for path in (folder, database_path))
        if not self._folder.is_relative_to(self._root):
            raise UserError(
                f"--databases {folder} is not below --database-path {database_path}: the scorer reads nothing else."
            )
        if benchmark.on_sqlite and options.db_id:
            raise UserError(f"--db-id is of --variant mini_pg: the databases of {benchmark.name} are SQLite files.")
        self._layout = Layout("`" if benchmark.on_sqlite else '"', omnisql=options.template == "omnisql")
        self._declared = _read_tables(options.tables) if options.tables is not None else {}
        # It raises BadRecord if the database does not exist or cannot be read.
        self.schema = cache(self._read_schema)

    def scorer_id(self, db_id: str) -> str:
        """The db_id for the scorer; for SQLite, this is the path below the scorer's database_path."""
        if self._benchmark.on_sqlite:
            return self._path(db_id)
        return (self._options.db_id or _SCORER_ID).replace("{db_id}", db_id)

    def _path(self, db_id: str) -> str:
        return (self._folder / f"{db_id}/{db_id}.sqlite").relative_to(self._root).as_posix()

    def _read_schema(self, db_id: str) -> Schema:
        try:
            # This is the scorer's search, so the scorer finds the database of every row.
            uri = find_database(self._root, self._path(db_id)).uri
            schema = replace(read_schema(uri), layout=self._layout)
            return add_declared_keys(schema, self._declared[db_id]) if db_id in self._declared else schema
        except (SchemaError, UnknownQuestion, DatabaseUnreadable) as error:
            raise BadRecord(f"database {db_id}: {error}") from error


def prepare(benchmark: SqlDataset, options: argparse.Namespace) -> str:
    """Write the parquet and return the summary.

    Args:
        options: the options of the command's parser (commands.py).
    """
    name, splits = benchmark.name, benchmark.id_blocks
    if options.split not in splits:
        raise UserError(f"--split is {options.split}, but {name} has {' and '.join(splits)}: give one of them.")
    databases = Databases(benchmark, options)
    records = list(_number(options.input))
    if options.corrections is not None:
        records = _corrected(records, options.corrections, benchmark)
    budget = Budget(options.max_prompt_tokens, options.tokenizer)
    output = Path(str(options.output).replace("{name}", name).replace("{split}", options.split))
    shortened = 0
    sources = [*options.input, *(path for path in (options.tables, options.corrections) if path is not None)]
    with RowWriter(output, SQL_ROWS, [Input(file) for file in sources]) as writer:
        for record in tqdm(records, desc=f"{name} {options.split}", unit="question"):
            try:
                row = _make_row(benchmark, options, record, databases, budget)
                writer.add(row)
            except BadRecord as error:
                kind = "its database cannot be used" if str(error).startswith("database ") else None
                about = record.values.get("question") if isinstance(record.values, Mapping) else record.values
                writer.reject(record.file, record.position, str(error), kind=kind, about=about)
                continue
            shortened += row["extra_info"]["tables_without_examples"] > 0
    databases_read = databases.schema.cache_info().currsize
    measured = "estimated from the characters" if options.tokenizer is None else "counted"
    within = f"to stay within {budget.max_tokens} tokens ({measured})"
    fewer = f"Fewer example values in {number_of(shortened, 'prompt')}, {within}.\n" if shortened else ""
    return f"{number_of(len(records), 'question')}, {number_of(databases_read, 'database')}.\n{fewer}{writer.summary()}"


def _read_tables(path: Path) -> dict[str, Any]:
    """The entries of Spider's tables.json by db_id."""
    entries = read_json_list(path)
    for position, entry in enumerate(entries):
        if not isinstance(entry, Mapping) or not {"db_id", "foreign_keys", "column_names_original"} <= entry.keys():
            raise UserError(f"{path} record {position} lacks db_id or the database's keys: give Spider's tables.json.")
    return {entry["db_id"]: entry for entry in entries}


def _number(files: Sequence[Path]) -> Iterator[Record]:
    """Number all records: by question_id if they have one, else by the position over all files."""
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


def _corrected(records: Sequence[Record], file: Path, benchmark: SqlDataset) -> list[Record]:
    """Replace the queries, questions and evidence that a review's list has, by question_id."""
    changes: dict[int, dict[str, Any]] = {}
    for position, found in enumerate(read_records(file)):
        found = found if isinstance(found, Mapping) else {}
        texts = {
            benchmark.query: found.get("corrected_sql"),
            **{key: found.get(key) for key in ("question", "evidence", "db_id")},
        }
        texts = {key: text for key, text in texts.items() if isinstance(text, str) and text.strip()}
        id = str(found.get("question_id"))
        if benchmark.query not in texts or not id.isdecimal():
            raise UserError(f"{file} record {position} is not a correction: give a question_id and a corrected_sql.")
        removed = {"evidence": ""} if found.get("evidence") == "" else {}
        changes[int(id)] = texts | removed
    corrected, unknown = list(records), dict(changes)
    for index, record in enumerate(records):
        if isinstance(record.number, int) and record.number in changes and isinstance(record.values, Mapping):
            values = {**record.values, **changes[record.number]}
            if values.get("db_id") != record.values.get("db_id"):
                raise UserError(
                    f"{file} has database {values['db_id']} for question {record.number}, --input has "
                    f"{record.values.get('db_id')}: give the list for this set and split."
                )
            if values != record.values:
                corrected[index] = replace(record, values=values, corrected=file)
            unknown.pop(record.number, None)
    if len(unknown) == len(changes):
        raise UserError(f"{file} corrects no record of --input: give the list of its question_ids.")
    if unknown:
        sys.stderr.write(f"{file} corrects {number_of(len(unknown), 'record')} that --input lacks: {named(unknown)}.\n")
    return corrected


def _make_row(
    benchmark: SqlDataset, options: argparse.Namespace, record: Record, databases: Databases, budget: Budget
) -> dict[str, Any]:
    values = record.values
    if not isinstance(values, Mapping):
        raise BadRecord("it is not a JSON object")
    for key in ("db_id", "question", benchmark.query):
        if not isinstance(values.get(key), str) or not values[key].strip():
            fields = "" if key in values else f" (its fields are {', '.join(map(str, values))})"
            raise BadRecord(f"its {key} is missing or not a text{fields}")
    db_id, evidence, difficulty = values["db_id"].strip(), values.get("evidence") or "", values.get("difficulty")
    if not isinstance(evidence, str):
        raise BadRecord("its evidence is not a text")
    if "/" in db_id or "\\" in db_id or db_id in (".", ".."):
        raise BadRecord("its db_id is not the name of a folder")
    if not isinstance(record.number, int) or isinstance(record.number, bool):
        raise BadRecord("its question_id is not a whole number")
    id = row_id(benchmark.name, options.split, record.number)
    question, evidence = values["question"].strip(), evidence.strip()
    fitted = fit_sql_prompt(databases.schema(db_id), question, evidence, budget.fits, benchmark.engine)
    if fitted is None:
        raise BadRecord("its prompt is above --max-prompt-tokens even without example values")
    content, tables_without_examples = fitted
    gold = values[benchmark.query].strip()
    truth = {"db_id": databases.scorer_id(db_id), "gold_sql": gold, "cmp_method": benchmark.cmp_method}
    return {
        "data_source": benchmark.name,
        "prompt": [{"role": "user", "content": content}],
        "reward_model": {"style": "rule", "ground_truth": truth},
        "id": id,
        "extra_info": {
            "index": record.number,
            "split": options.split,
            "source": (record.corrected or record.file).name,
            "question_id": values.get("question_id"),
            "difficulty": None if difficulty is None else str(difficulty),
            "tables_without_examples": tables_without_examples,
        },
    }
