"""Write the demo's task: four SQLite databases and four sets of questions, all from one seed.

    python -m rl.demo.task --out outputs/demo/task

DIR/databases/<schema>/<schema>.sqlite, and in the row format of the paper train.parquet, test_in_domain.parquet,
test_out_of_domain.parquet and sft.parquet (with a further column "solutions": the five SQL texts). No question occurs
twice, neither within a file nor across files. DIR/task.json, written last, holds the settings and their hash.
"""

import argparse
import random
import sqlite3
import sys
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rl.common.atomic_write import replacing
from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.data.prepare.prompt_template import sql_prompt
from rl.data.prepare.schema import read_schema
from rl.demo.question_families import (
    AMBIGUOUS_SHARE,
    FAMILIES,
    FIRST_READING_SHARE,
    RL_MIX,
    SFT_MIX,
    Mix,
    Question,
    draw_question,
)
from rl.demo.schemas import IN_DOMAIN, OUT_OF_DOMAIN, PARENT_ROWS, SCHEMAS, Schema, fill_database
from rl.demo.sql_solutions import STYLE_NAMES, announced_solution, solve
from rl.demo.stage_marks import read_mark, settings_hash, write_mark

# Raise it when the written files change without a change of the settings and definitions in `_identity`.
FORMAT = "dph-demo-task/3"
EXAMPLE_VALUES = 2  # of each column, in the prompt
MARK = "task.json"
GOLD_STYLE = "IN"
# A question that nearly every parent matches can be solved with half of its conditions.
MOST_ROWS = int(0.8 * PARENT_ROWS)
DRAWS_PER_QUESTION = 50


@dataclass(frozen=True)
class TaskSettings:
    """Number of questions per file, and the seed."""

    seed: int = 0
    train: int = 384
    eval: int = 96
    sft: int = 6000


@dataclass(frozen=True)
class Split:
    """One file of questions. The ids of its rows count up from `first_id`, so no file's size changes another's ids."""

    name: str
    schemas: tuple[Schema, ...]
    mix: Mix
    size: int
    first_id: int


def splits(settings: TaskSettings) -> tuple[Split, ...]:
    """The files in drawing order: a later one excludes the questions of those before it."""
    return (
        Split("test_in_domain", IN_DOMAIN, RL_MIX, settings.eval, first_id=1_000_000),
        Split("test_out_of_domain", OUT_OF_DOMAIN, RL_MIX, settings.eval, first_id=2_000_000),
        Split("train", IN_DOMAIN, RL_MIX, settings.train, first_id=0),
        Split("sft", SCHEMAS, SFT_MIX, settings.sft, first_id=3_000_000),
    )


def make_task(folder: Path, settings: TaskSettings) -> bool:
    """Write the task into `folder`; False if it is already there with these settings.

    Raises:
        UserError: a size is below 1 or larger than the templates allow.
    """
    for name in ("train", "eval", "sft"):
        if getattr(settings, name) < 1:
            raise UserError(f"The demo task's {name} is {getattr(settings, name)}; it must be at least 1.")
    identity = _identity(settings)
    mark = read_mark(folder / MARK)
    if mark is not None and mark["hash"] == settings_hash(identity):
        return False

    folder.mkdir(parents=True, exist_ok=True)
    # Without its mark, an unfinished folder is made again.
    (folder / MARK).unlink(missing_ok=True)
    paths = {schema.name: _write_database(folder / "databases", schema, settings.seed) for schema in SCHEMAS}
    uris = {name: f"file:{path.resolve()}?mode=ro" for name, path in paths.items()}
    definitions = {name: read_schema(uri, EXAMPLE_VALUES, seed=None).complete for name, uri in uris.items()}
    connections = {name: sqlite3.connect(uri, uri=True) for name, uri in uris.items()}
    try:
        _write_splits(folder, settings, connections, definitions)
    finally:
        for connection in connections.values():
            connection.close()
    write_mark(folder / MARK, identity)
    return True


def draw_questions(
    split: Split, seed: int, connections: dict[str, sqlite3.Connection], excluded: set[str]
) -> list[Question]:
    """Draw `split.size` distinct questions whose texts are not in `excluded`.

    Each has a gold result that is neither empty nor larger than MOST_ROWS distinct rows.

    Args:
        connections: an open database for each schema's name.

    Raises:
        UserError: the templates do not give that many questions.
    """
    rng = random.Random(f"{seed}/questions/{split.name}")
    texts, questions = set(excluded), []
    for _ in range(DRAWS_PER_QUESTION * split.size):
        question = draw_question(rng, split.schemas, split.mix)
        if question.text in texts:
            continue
        rows = set(connections[question.schema.name].execute(solve(question, GOLD_STYLE)))
        if not 0 < len(rows) <= MOST_ROWS:
            continue
        texts.add(question.text)
        questions.append(question)
        if len(questions) == split.size:
            return questions
    raise UserError(
        f"Only {len(questions)} of {split.size} distinct questions for {split.name} were found in "
        f"{DRAWS_PER_QUESTION * split.size} draws; ask for fewer."
    )


def _identity(settings: TaskSettings) -> dict:
    """Everything that decides the task's content, JSON-serialisable."""
    return {
        "format": FORMAT,
        **asdict(settings),
        "schemas": [asdict(schema) for schema in SCHEMAS],
        "families": [asdict(family) for family in FAMILIES],
        "sft_mix": asdict(SFT_MIX),
        "rl_mix": asdict(RL_MIX),
        "ambiguous_share": AMBIGUOUS_SHARE,
        "first_reading_share": FIRST_READING_SHARE,
        "prompt": sql_prompt("...", "...", ""),
    }


def _write_database(databases: Path, schema: Schema, seed: int) -> Path:
    path = databases / schema.db_id
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, closing(sqlite3.connect(temporary)) as connection:
        fill_database(connection, schema, seed)
    return path


def _write_splits(
    folder: Path, settings: TaskSettings, connections: dict[str, sqlite3.Connection], definitions: dict[str, str]
) -> None:
    texts: set[str] = set()
    for split in splits(settings):
        questions = draw_questions(split, settings.seed, connections, texts)
        texts.update(question.text for question in questions)
        rows = [
            _row(question, split, index, definitions[question.schema.name]) for index, question in enumerate(questions)
        ]
        if split.name == "sft":
            for row, question in zip(rows, questions, strict=True):
                row["solutions"] = [announced_solution(question, style) for style in STYLE_NAMES]
        _write_parquet(folder / f"{split.name}.parquet", rows)


def _row(question: Question, split: Split, index: int, definitions: str) -> dict:
    return {
        "data_source": "sql",
        "prompt": [{"role": "user", "content": sql_prompt(definitions, question.text, "")}],
        "reward_model": {
            "style": "rule",
            "ground_truth": {
                "db_id": question.schema.db_id,
                "gold_sql": solve(question, GOLD_STYLE),
                "cmp_method": "bird",
            },
        },
        "id": split.first_id + index,
        "extra_info": {
            "index": index,
            "split": split.name,
            "family": question.family.name,
            "schema": question.schema.name,
            "ambiguous": question.ambiguous,
        },
    }


def _write_parquet(path: Path, rows: list[dict]) -> None:
    with replacing(path) as temporary:
        pq.write_table(pa.Table.from_pylist(rows), temporary, compression="zstd")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m rl.demo.task", description="Write the demo's task.")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the task")
    parser.add_argument("--seed", type=int, default=TaskSettings.seed, help="default %(default)s")
    parser.add_argument("--train", type=int, default=TaskSettings.train, help="training questions, default %(default)s")
    parser.add_argument(
        "--eval", type=int, default=TaskSettings.eval, help="questions per test file, default %(default)s"
    )
    arguments = parser.parse_args()
    settings = TaskSettings(seed=arguments.seed, train=arguments.train, eval=arguments.eval)
    with user_errors_exit():
        written = make_task(arguments.out, settings)
        if written:
            sys.stdout.write(f"Wrote the demo task to {arguments.out}.\n")
        else:
            sys.stdout.write(f"The demo task in {arguments.out} already has these settings: skipped.\n")


if __name__ == "__main__":
    main()
