"""What the demo's tasks share: the number of their questions, how they are drawn, and their command line."""

import argparse
import random
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from rl.common.atomic_write import replacing
from rl.common.cli import output_folder, user_errors_exit
from rl.common.errors import UserError

DRAWS_PER_QUESTION = 50


class Question(Protocol):
    """A question, which its text identifies."""

    @property
    def text(self) -> str: ...


Q = TypeVar("Q", bound=Question)


@dataclass(frozen=True)
class TaskSettings:
    """The number of questions per file, and the seed."""

    seed: int = 0
    train: int = 384
    eval: int = 96
    eval_in_domain: int | None = None  # as many as out of domain
    sft: int = 6000

    @property
    def in_domain(self) -> int:
        return self.eval if self.eval_in_domain is None else self.eval_in_domain


# The ids of a file's rows count up from here, so no file's size changes another's ids.
FIRST_IDS = {"train": 0, "test_in_domain": 1_000_000, "test_out_of_domain": 2_000_000, "sft": 3_000_000}


def draw_distinct(
    name: str, size: int, seed: int, draw: Callable[[random.Random], Q | None], excluded: Collection[str]
) -> list[Q]:
    """Draw `size` questions with distinct texts that are not in `excluded`.

    Args:
        name: of the file; with the seed it alone decides the random numbers.
        draw: a question, or None if the draw is rejected.

    Raises:
        UserError: the size is below 1, or there are not so many questions.
    """
    rng = random.Random(f"{seed}/questions/{name}")
    texts, questions = set(excluded), list[Q]()
    for _ in range(DRAWS_PER_QUESTION * size):
        question = draw(rng)
        if question is None or question.text in texts:
            continue
        texts.add(question.text)
        questions.append(question)
        if len(questions) == size:
            return questions
    raise UserError(
        f"{name} cannot have {size} questions: {max(0, DRAWS_PER_QUESTION * size)} draws gave "
        f"{len(questions)} distinct ones; ask for 1 or more, and fewer than these."
    )


def write_rows(folder: Path, name: str, rows: list[dict]) -> None:
    """Write DIR/<name>.parquet."""
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / f"{name}.parquet") as temporary:
        pq.write_table(pa.Table.from_pylist(rows), temporary, compression="zstd")


def run(module: str, description: str, default: TaskSettings, make_task: Callable[[Path, TaskSettings], None]) -> None:
    """The command line of a task's module."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--out", type=output_folder, required=True, metavar="DIR", help="folder of the task")
    parser.add_argument("--seed", type=int, default=default.seed, help="default %(default)s")
    parser.add_argument("--train", type=int, default=default.train, help="training questions, default %(default)s")
    parser.add_argument("--eval", type=int, default=default.eval, help="questions per test file, default %(default)s")
    parser.add_argument("--eval-in-domain", type=int, help="questions in domain, default as many as --eval")
    arguments = parser.parse_args()
    with user_errors_exit():
        sizes = {"train": arguments.train, "eval": arguments.eval, "eval_in_domain": arguments.eval_in_domain}
        make_task(arguments.out, TaskSettings(seed=arguments.seed, sft=default.sft, **sizes))
        sys.stdout.write(f"Wrote the demo's task to {arguments.out}.\n")
