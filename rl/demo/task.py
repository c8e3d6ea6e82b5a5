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
from collections.abc import Sequence
from contextlib import ExitStack, closing
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
from rl.demo.task_files import FIRST_IDS, TaskSettings, draw_files, run, write_files
from rl.demo.tokenizer import response_text

EXAMPLE_VALUES = 2  # per column, in the prompt
GOLD_STYLE = "IN"
# If nearly every parent matches, half of a question's conditions are enough to solve it.
MOST_ROWS = int(0.8 * PARENT_ROWS)


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
    files = _draw_questions(settings, uris)
    expert = [
        {"id": id, "response": response_text(announced_solution(question, GOLD_STYLE)), "source": "gold"}
        for id, question in enumerate(files["train"], FIRST_IDS["train"])
    ]
    write_text(folder / "expert.jsonl", "".join(f"{json.dumps(line)}\n" for line in expert))
    write_files(
        folder,
        files,
        lambda question: _row(question, definitions[question.schema.name]),
        lambda question: [announced_solution(question, style) for style in STYLE_NAMES],
    )


def _draw_questions(settings: TaskSettings, uris: dict[str, str]) -> dict[str, list[Question]]:
    """{file: its questions}. Each has a gold result that is neither empty nor larger than MOST_ROWS distinct rows.

    Args:
        uris: the databases, by the schema's name.
    """
    with ExitStack() as opened:
        databases = {name: opened.enter_context(closing(sqlite3.connect(uri, uri=True))) for name, uri in uris.items()}

        def draw(rng: random.Random, schemas: Sequence[Schema], mix: Mix) -> Question | None:
            question = draw_question(rng, schemas, mix)
            rows = set(databases[question.schema.name].execute(solve(question, GOLD_STYLE)))
            return question if 0 < len(rows) <= MOST_ROWS else None

        return draw_files(settings, IN_DOMAIN, OUT_OF_DOMAIN, RL_MIX, SFT_MIX, draw)


def _row(question: Question, definitions: str) -> dict:
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
        "extra_info": {
            "family": question.family.name,
            "schema": question.schema.name,
            "ambiguous": question.ambiguous,
        },
    }


def main() -> None:
    run("rl.demo.task", "Write the demo's task.", TaskSettings(), make_task)


if __name__ == "__main__":
    main()
