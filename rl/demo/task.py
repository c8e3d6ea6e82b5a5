"""Write a task of the demo, all from one seed: questions for SQL with four SQLite databases, or math word problems.

    python -m rl.demo.task --out outputs/demo/task
    python -m rl.demo.task --out outputs/smollm2/task --kind math

In the rows that `dph prepare` writes, both write train.parquet, test_in_domain.parquet, test_out_of_domain.parquet and
sft.parquet (with a column "solutions" for a question's solution in each style). No question occurs twice, neither
within a file nor across files. The SQL task also has DIR/databases/<schema>/<schema>.sqlite, and DIR/anchor.parquet:
ids and prompts, without answers, about the first database out of domain (data.sft_anchor_pt).
"""

import argparse
import random
import sqlite3
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from rl.common.atomic_write import replacing
from rl.common.cli import output_folder, user_errors_exit
from rl.common.errors import UserError
from rl.data.prepare.prompt_template import math_prompt, sql_prompt
from rl.data.prepare.schema import read_schema
from rl.demo import questions, word_problems
from rl.demo.questions import SCHEMAS, STYLE_NAMES, Mix, Question, Schema, announced_solution, draw_question, solve

GOLD_STYLE = "IN"
# If nearly every parent matches, half of a question's conditions are enough to solve it.
MOST_ROWS = int(0.8 * questions.PARENT_ROWS)
DRAWS_PER_QUESTION = 50

Q = TypeVar("Q", Question, word_problems.Problem)


@dataclass(frozen=True)
class TaskSettings:
    """The number of questions per file, and the seed."""

    seed: int = 0
    train: int = 384
    eval: int = 96
    eval_in_domain: int | None = None  # as many as out of domain
    sft: int = 6000
    anchor: int = 256

    @property
    def in_domain(self) -> int:
        return self.eval if self.eval_in_domain is None else self.eval_in_domain


MATH_SFT = 512  # problems for fine-tuning
# The ids of a file's rows count up from here, so no file's size changes another's ids.
FIRST_IDS = {
    "train": 0,
    "test_in_domain": 1_000_000,
    "test_out_of_domain": 2_000_000,
    "sft": 3_000_000,
    "anchor": 4_000_000,
}


def make_task(folder: Path, settings: TaskSettings) -> None:
    """Write the task into `folder`; sft.parquet comes last."""
    uris = {}
    for schema in SCHEMAS:
        path = folder / "databases" / schema.db_id
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, closing(sqlite3.connect(temporary)) as connection:
            questions.fill_database(connection, schema, settings.seed)
        uris[schema.name] = f"{path.resolve().as_uri()}?mode=ro"
    definitions = {name: read_schema(uri).definitions() for name, uri in uris.items()}
    files = _draw_questions(settings, uris)
    anchor = [_sql_row(question, definitions[question.schema.name])["prompt"] for question in files.pop("anchor")]
    rows = [{"id": id, "prompt": prompt} for id, prompt in enumerate(anchor, FIRST_IDS["anchor"])]
    _write_rows(folder / "anchor.parquet", rows)
    write_files(
        folder,
        files,
        lambda question: _sql_row(question, definitions[question.schema.name]),
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

        more = [("anchor", settings.anchor, questions.OUT_OF_DOMAIN[:1], questions.RL_MIX)]
        return draw_files(settings, questions, draw, more)


def _sql_row(question: Question, definitions: str) -> dict:
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


def make_math_task(folder: Path, settings: TaskSettings) -> None:
    """Write the word problems into `folder`; sft.parquet comes last."""
    files = draw_files(settings, word_problems, word_problems.draw_problem)
    write_files(folder, files, _math_row, word_problems.solutions)


def _math_row(problem: word_problems.Problem) -> dict:
    return {
        "data_source": "math",
        "prompt": [{"role": "user", "content": math_prompt(problem.text)}],
        "reward_model": {"style": "rule", "ground_truth": str(problem.answer)},
        "extra_info": {"family": problem.family, "ambiguous": problem.ambiguous},
    }


def draw_files(
    settings: TaskSettings,
    source: ModuleType,
    draw: Callable[[random.Random, Any, Any], Q | None],
    more: Sequence[tuple[str, int, tuple, Any]] = (),
) -> dict[str, list[Q]]:
    """{file: its questions}, in drawing order: a later file excludes the questions of earlier ones.

    Args:
        source: has the topics, such as databases, and the frequencies of the kinds of questions.
        draw: a question about one of these topics with these frequencies, or None if it is rejected.
        more: name, size, topics and frequencies of further files.
    """
    files, texts = dict[str, list[Q]](), set[str]()
    for name, size, topics, mix in (
        ("test_in_domain", settings.in_domain, source.IN_DOMAIN, source.RL_MIX),
        ("test_out_of_domain", settings.eval, source.OUT_OF_DOMAIN, source.RL_MIX),
        ("train", settings.train, source.IN_DOMAIN, source.RL_MIX),
        ("sft", settings.sft, source.IN_DOMAIN + source.OUT_OF_DOMAIN, source.SFT_MIX),
        *more,
    ):
        rng = random.Random(f"{settings.seed}/questions/{name}")  # no file's size changes another's random numbers
        files[name] = _draw_distinct(name, size, partial(draw, rng, topics, mix), texts)
    return files


def _draw_distinct(name: str, size: int, draw: Callable[[], Q | None], texts: set[str]) -> list[Q]:
    """Draw questions whose texts are not in `texts`, and add them there."""
    drawn = list[Q]()
    for _ in range(DRAWS_PER_QUESTION * size):
        question = draw()
        if question is None or question.text in texts:
            continue
        texts.add(question.text)
        drawn.append(question)
        if len(drawn) == size:
            return drawn
    raise UserError(
        f"{name} cannot have {size} questions: {max(0, DRAWS_PER_QUESTION * size)} draws gave "
        f"{len(drawn)} distinct ones; ask for 1 or more, and fewer than these."
    )


def write_files(
    folder: Path, files: dict[str, list[Q]], row_of: Callable[[Q], dict], solutions: Callable[[Q], list[str]]
) -> None:
    """Write DIR/<file>.parquet for each of draw_files.

    Args:
        row_of: a question's row without its id, index and split.
        solutions: the column that sft.parquet has too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, of_file in files.items():
        rows = []
        for index, question in enumerate(of_file):
            row = row_of(question)
            extra_info = {"index": index, "split": name} | row.pop("extra_info")
            row |= {"id": FIRST_IDS[name] + index, "extra_info": extra_info}
            rows.append(row | {"solutions": solutions(question)} if name == "sft" else row)
        _write_rows(folder / f"{name}.parquet", rows)


def _write_rows(path: Path, rows: list[dict]) -> None:
    # The reference pages load the parsers of `dph` in an environment without Arrow.
    import pyarrow as pa
    import pyarrow.parquet as pq

    with replacing(path) as temporary:
        pq.write_table(pa.Table.from_pylist(rows), temporary, compression="zstd")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m rl.demo.task", description="Write a task of the demo.")
    parser.add_argument("--out", type=output_folder, required=True, metavar="DIR", help="folder of the task")
    parser.add_argument("--kind", choices=("sql", "math"), default="sql", help="default %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default %(default)s")
    parser.add_argument("--train", type=int, default=TaskSettings.train, help="training questions, default %(default)s")
    parser.add_argument(
        "--eval", type=int, default=TaskSettings.eval, help="questions per test file, default %(default)s"
    )
    parser.add_argument("--eval-in-domain", type=int, help="questions in domain, default as many as --eval")
    arguments = parser.parse_args()
    make, sft = (make_task, TaskSettings.sft) if arguments.kind == "sql" else (make_math_task, MATH_SFT)
    with user_errors_exit():
        sizes = {"train": arguments.train, "eval": arguments.eval, "eval_in_domain": arguments.eval_in_domain}
        make(arguments.out, TaskSettings(seed=arguments.seed, sft=sft, **sizes))
        sys.stdout.write(f"Wrote the demo's task to {arguments.out}.\n")


if __name__ == "__main__":
    main()
