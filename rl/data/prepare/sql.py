"""The SQL benchmarks' commands: questions and database folders in, a parquet of rows out."""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from rl.common.errors import UserError
from rl.data.prepare.download import Input
from rl.data.prepare.inputs import read_json_list, read_records
from rl.data.prepare.prompt_template import fit_sql_prompt
from rl.data.prepare.row_writer import SQL_ROWS, BadRecord, RowWriter, row_id, splits_of
from rl.data.prepare.schema import Layout, Schema, SchemaError, add_declared_keys, read_schema
from rl.data.prepare.token_budget import Budget
from rl.data.prepare.values import ValueIndex
from rl.data.wording import first_of, named, number_of
from rl.scorer.databases import find_database
from rl.scorer.outcomes import UnknownQuestion


@dataclass(frozen=True)
class Benchmark:
    """How a published file has its questions.

    Attributes:
        sql, question: keys of a record.
        cmp_method: of its rows.
        file: of a database, below --databases.
        postgresql: whether its queries are PostgreSQL's; the SQLite files then only show the schema.
    """

    sql: str
    cmp_method: str
    question: str = "question"
    file: str = "{db_id}/{db_id}.sqlite"
    postgresql: bool = False

    @property
    def engine(self) -> str:
        return "PostgreSQL" if self.postgresql else "SQLite"


# By name, which is also the rows' data_source.
BENCHMARKS = {
    "bird": Benchmark("SQL", "bird"),
    "bird_mini": Benchmark("SQL", "bird"),
    "bird_mini_pg": Benchmark("SQL", "bird", postgresql=True),
    "spider": Benchmark("query", "spider"),
    "spider_syn": Benchmark("query", "spider", question="SpiderSynQuestion"),
    "spider_dk": Benchmark("query", "spider"),
    "spider_realistic": Benchmark("query", "spider"),
    "spider2_lite": Benchmark("gold", "spider2", file="{db_id}.sqlite"),  # records of spider2.py
}
# Keys of the corrected query in published lists of corrections, beside the benchmark's own.
_CORRECTED_SQL = ("corrected_sql", "gold_sql", "SQL", "query", "sql")
_CORRECTED_IDS = ("question_id", "id", "idx")
_TOO_LONG = "its prompt is above --max-prompt-tokens even without example values"


@dataclass(frozen=True)
class Record:
    """One record of the input files.

    Attributes:
        number: what its id is made from; any value of the file until _make_row has looked at it.
        position: in its file, from 0.
        corrected: the file that corrects it, if any.
    """

    number: object
    file: Path
    position: int
    values: Any
    corrected: Path | None = None


class Databases:
    """The schemas of a benchmark's databases; each is read once.

    Args:
        options: of commands.bird_parser or spider_parser.
        declared: entries of Spider's tables.json by db_id.

    Raises:
        UserError: a folder does not exist, or one is not in the other.
    """

    def __init__(self, benchmark: Benchmark, options: argparse.Namespace, declared: Mapping[str, Any]):
        self._benchmark, self._db_id = benchmark, getattr(options, "db_id", "")
        self._layout = Layout('"' if benchmark.postgresql else "`", omnisql=options.template == "omnisql")
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
        # Of the last databases: the questions of one stand together in the published files.
        self.values = lru_cache(maxsize=2)(self._index_values)

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
        return [db_id for db_id in db_ids if not (self._folder / self.file(db_id)).is_file()]

    def file(self, db_id: str) -> str:
        return self._benchmark.file.format(db_id=db_id)

    def scorer_id(self, db_id: str) -> str:
        """What the scorer finds the database by: of SQLite, its path below the scorer's database_path."""
        return self._db_id.replace("{db_id}", db_id) if self._benchmark.postgresql else self._path(db_id)

    def count_read(self) -> int:
        return sum(isinstance(found, Schema) for found in self._schemas.values())

    def _path(self, db_id: str) -> str:
        return (self._folder / self.file(db_id)).relative_to(self._root).as_posix()

    def _read(self, db_id: str) -> Schema:
        # The scorer's own search, so that a row's database is one that the scorer finds.
        database = find_database(self._root, self._path(db_id))
        schema = replace(read_schema(database.uri, self._example_values, self._seed), layout=self._layout)
        return add_declared_keys(schema, self._declared[db_id]) if db_id in self._declared else schema

    def _index_values(self, db_id: str) -> ValueIndex:
        try:
            return ValueIndex(find_database(self._root, self._path(db_id)).uri, self.schema(db_id))
        except (SchemaError, UnknownQuestion) as error:
            raise BadRecord(f"database {db_id}: {error}") from error


def prepare(
    name: str, options: argparse.Namespace, declared: Mapping[str, Any], records: Sequence[Record] | None = None
) -> str:
    """Write the parquet and return the summary.

    Args:
        name: of a benchmark, one of BENCHMARKS.
        options: of commands.bird_parser, spider_parser or spider2_lite_parser.
        declared: entries of Spider's tables.json by db_id; {}: none.
        records: of the input; None: they are read as JSON lists.

    Raises:
        UserError: an option or a file is wrong, or no record makes a row.
    """
    if options.split not in (splits := splits_of(name)):
        raise UserError(f"--split is {options.split}, but {name} has {' and '.join(splits)}: give one of them.")
    databases = Databases(BENCHMARKS[name], options, declared)
    records = list(_number(options.input)) if records is None else records
    if options.corrections is not None:
        records = _corrected(records, options.corrections, BENCHMARKS[name])
    audited = _audited(options.audit, options.drop_for) if options.audit is not None else {}
    _report_missing(databases, records, options.databases)
    budget = Budget(options.max_prompt_tokens, options.tokenizer)
    output = Path(str(options.output).replace("{name}", name).replace("{split}", options.split))
    lengths, shortened = [], 0
    sources = [*options.input, *(path for path in (options.corrections, options.audit) if path is not None)]
    with RowWriter(output, SQL_ROWS, [Input(file) for file in sources]) as writer:
        for record in tqdm(records, desc=f"{name} {options.split}", unit="question"):
            try:
                row = _make_row(name, options, record, databases, budget)
                if row["id"] in audited:
                    raise BadRecord(f"the audit found {audited[row['id']]}")
                writer.add(row)
            except BadRecord as error:
                kind = "its database cannot be used" if str(error).startswith("database ") else None
                key = BENCHMARKS[name].question
                about = record.values.get(key) if isinstance(record.values, Mapping) else record.values
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


def _corrected(records: Sequence[Record], file: Path, benchmark: Benchmark) -> list[Record]:
    """The records with what a list of corrections has of them: query, question, evidence.

    Raises:
        UserError: the file cannot be read, a correction has no whole number as id or nothing to correct, or none of
            them is of a record.
    """
    changes: dict[int, dict[str, Any]] = {}
    for position, given in enumerate(read_records(file)):
        found = given if isinstance(given, Mapping) else {}
        sql = next((found[key] for key in (benchmark.sql, *_CORRECTED_SQL) if found.get(key)), None)
        texts = {benchmark.sql: sql, benchmark.question: found.get("question"), "evidence": found.get("evidence")}
        number = next((found[key] for key in _CORRECTED_IDS if found.get(key) is not None), None)
        texts = {key: text for key, text in texts.items() if isinstance(text, str) and text.strip()}
        if not texts or not str(number).isdecimal():
            raise UserError(
                f"{file} record {position} is no correction: give a {_CORRECTED_IDS[0]} and a {_CORRECTED_SQL[0]}."
            )
        changes[int(str(number))] = texts
    numbers = {record.number for record in records if isinstance(record.number, int)}
    unknown = [number for number in changes if number not in numbers]
    if len(unknown) == len(changes):
        raise UserError(f"{file} corrects no record of --input (first {first_of(unknown)}): give the list of its ids.")
    if unknown:
        sys.stderr.write(f"{file} corrects {number_of(len(unknown), 'record')} that --input lacks: {named(unknown)}.\n")
    return [
        replace(record, values={**record.values, **changes[record.number]}, corrected=file)
        if isinstance(record.number, int) and record.number in changes and isinstance(record.values, Mapping)
        else record
        for record in records
    ]


def _audited(file: Path, drop_for: Sequence[str]) -> dict[int, str]:
    """{id: outcome} of the rows that an audit's table has for one of the outcomes.

    Raises:
        UserError: the file cannot be read, or is no such table.
    """
    found: dict[int, str] = {}
    for row in read_records(file):
        if not isinstance(row, Mapping) or not {"id", "outcome"} <= row.keys() or not str(row["id"]).isdecimal():
            raise UserError(f"{file} is no table of dph audit, with id and outcome: give one of this benchmark's rows.")
        if row["outcome"] in drop_for:
            found.setdefault(int(row["id"]), row["outcome"])
    return found


def _report_missing(databases: Databases, records: Sequence[Record], folder: Path) -> None:
    """Name the databases that the questions need and the folder lacks, before the first one is read.

    Raises:
        UserError: it has none of them.
    """
    values = [record.values for record in records if isinstance(record.values, Mapping)]
    questions = Counter(str(each["db_id"]).strip() for each in values if each.get("db_id"))
    missing = databases.missing(questions)
    files = first_of(map(databases.file, missing))
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


def _make_row(
    name: str, options: argparse.Namespace, record: Record, databases: Databases, budget: Budget
) -> dict[str, Any]:
    values, benchmark = record.values, BENCHMARKS[name]
    if not isinstance(values, Mapping):
        raise BadRecord("it is no JSON object")
    for key in ("db_id", benchmark.question, benchmark.sql):
        if not isinstance(values.get(key), str) or not values[key].strip():
            raise BadRecord(f"its {key} is missing or no text")
    db_id, evidence, difficulty = values["db_id"].strip(), values.get("evidence") or "", values.get("difficulty")
    if not isinstance(evidence, str):
        raise BadRecord("its evidence is no text")
    if "/" in db_id or "\\" in db_id or db_id in (".", ".."):
        raise BadRecord("its db_id is no name of a folder")
    if not isinstance(record.number, int) or isinstance(record.number, bool):
        raise BadRecord("its question_id is no whole number")
    id = row_id(name, options.split, record.number)
    question, evidence = values[benchmark.question].strip(), evidence.strip()
    schemas = [databases.schema(db_id)]
    if options.value_tokens:
        found = databases.values(db_id).search(f"{question} {evidence}", options.value_tokens, budget.count)
        schemas.insert(0, schemas[0].with_found(found))
    fitted = next(
        filter(None, (fit_sql_prompt(of, question, evidence, budget.fits, benchmark.engine) for of in schemas)), None
    )
    if fitted is None:
        raise BadRecord(_TOO_LONG)
    content, tables_without_examples = fitted
    gold = values[benchmark.sql].strip()
    truth = {"db_id": databases.scorer_id(db_id), "gold_sql": gold, "cmp_method": benchmark.cmp_method}
    return {
        "data_source": name,
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
