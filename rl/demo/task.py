"""Write the demo's task: four SQLite databases and four sets of questions, all from one seed.

    python -m rl.demo.task --out outputs/demo/task

It writes DIR/databases/<schema>/<schema>.sqlite, and in the paper's row format train.parquet, test_in_domain.parquet,
test_out_of_domain.parquet and sft.parquet (with a column "solutions" for the five SQL texts). No question occurs twice,
neither within a file nor across files. DIR/expert.jsonl has a response from elsewhere to every training question: the
gold query, always in the same style (data.sft_responses).
"""

import json
import random
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rl.common.atomic_write import replacing, write_text
from rl.data.prepare.prompt_template import sql_prompt
from rl.data.prepare.schema import read_schema
from rl.demo.questions import (
    IN_DOMAIN,
    OUT_OF_DOMAIN,
    PARENT_ROWS,
    RL_MIX,
    SCHEMAS,
    SFT_MIX,
    STYLE_NAMES,
    Mix,
    Question,
    Schema,
    announced_solution,
    draw_question,
    fill_database,
    solve,
)
from rl.demo.task_files import FIRST_IDS, TaskSettings, draw_distinct, run, write_rows
from rl.demo.tokenizer import response_text

EXAMPLE_VALUES = 2  # per column, in the prompt
GOLD_STYLE = "IN"
# If nearly every parent matches, half of a question's conditions are enough to solve it.
MOST_ROWS = int(0.8 * PARENT_ROWS)


@dataclass(frozen=True)
class Split:
    """One file of questions."""

    name: str
    schemas: tuple[Schema, ...]
    mix: Mix
    size: int


def splits(settings: TaskSettings) -> tuple[Split, ...]:
    """The files in drawing order; a later file excludes the questions of earlier ones."""
    return (
        Split("test_in_domain", IN_DOMAIN, RL_MIX, settings.in_domain),
        Split("test_out_of_domain", OUT_OF_DOMAIN, RL_MIX, settings.eval),
        Split("train", IN_DOMAIN, RL_MIX, settings.train),
        Split("sft", SCHEMAS, SFT_MIX, settings.sft),
    )


def make_task(folder: Path, settings: TaskSettings) -> None:
    """Write the task into `folder`; sft.parquet comes last.

    Raises:
        UserError: a size is below 1, or larger than the templates allow.
    """
    uris = {}
    for schema in SCHEMAS:
        path = folder / "databases" / schema.db_id
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, closing(sqlite3.connect(temporary)) as connection:
            fill_database(connection, schema, settings.seed)
        uris[schema.name] = f"file:{path.resolve()}?mode=ro"
    definitions = {name: read_schema(uri, EXAMPLE_VALUES).complete for name, uri in uris.items()}
    connections = {name: sqlite3.connect(uri, uri=True) for name, uri in uris.items()}
    texts: set[str] = set()
    try:
        for split in splits(settings):
            questions = draw_questions(split, settings.seed, connections, texts)
            texts.update(question.text for question in questions)
            _write_split(folder, split, questions, definitions)
    finally:
        for connection in connections.values():
            connection.close()


def draw_questions(
    split: Split, seed: int, connections: dict[str, sqlite3.Connection], excluded: set[str]
) -> list[Question]:
    """Draw `split.size` distinct questions whose texts are not in `excluded`.

    Each has a gold result that is neither empty nor larger than MOST_ROWS distinct rows.

    Args:
        connections: an open database for each schema's name.

    Raises:
        UserError: the size is below 1, or the templates do not give so many questions.
    """

    def draw(rng: random.Random) -> Question | None:
        question = draw_question(rng, split.schemas, split.mix)
        rows = set(connections[question.schema.name].execute(solve(question, GOLD_STYLE)))
        return question if 0 < len(rows) <= MOST_ROWS else None

    return draw_distinct(split.name, split.size, seed, draw, excluded)


def _write_split(folder: Path, split: Split, questions: list[Question], definitions: dict[str, str]) -> None:
    rows = [_row(question, split, index, definitions[question.schema.name]) for index, question in enumerate(questions)]
    if split.name == "sft":
        for row, question in zip(rows, questions, strict=True):
            row["solutions"] = [announced_solution(question, style) for style in STYLE_NAMES]
    if split.name == "train":
        responses = [response_text(announced_solution(question, GOLD_STYLE)) for question in questions]
        lines = [
            json.dumps({"id": row["id"], "response": response, "source": "gold"})
            for row, response in zip(rows, responses, strict=True)
        ]
        write_text(folder / "expert.jsonl", "\n".join(lines) + "\n")
    write_rows(folder, split.name, rows)


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
        "id": FIRST_IDS[split.name] + index,
        "extra_info": {
            "index": index,
            "split": split.name,
            "family": question.family.name,
            "schema": question.schema.name,
            "ambiguous": question.ambiguous,
        },
    }


def main() -> None:
    run("rl.demo.task", "Write the demo's task.", TaskSettings(), make_task)


if __name__ == "__main__":
    main()
