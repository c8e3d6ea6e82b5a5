"""What the demo's tasks share: four files of questions, all from one seed, and the command line that writes them."""

import argparse
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
Topic = TypeVar("Topic")  # what questions are about, such as a database
Mix = TypeVar("Mix")  # the frequencies of their kinds


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


def draw_files(
    settings: TaskSettings,
    in_domain: tuple[Topic, ...],
    out_of_domain: tuple[Topic, ...],
    rl_mix: Mix,
    sft_mix: Mix,
    draw: Callable[[random.Random, tuple[Topic, ...], Mix], Q | None],
) -> dict[str, list[Q]]:
    """{file: its questions}, in drawing order: a later file excludes the questions of earlier ones.

    Args:
        draw: a question about one of the topics, or None if it is rejected.

    Raises:
        UserError: a size is below 1, or there are not so many questions.
    """
    files, texts = dict[str, list[Q]](), set[str]()
    for name, size, topics, mix in (
        ("test_in_domain", settings.in_domain, in_domain, rl_mix),
        ("test_out_of_domain", settings.eval, out_of_domain, rl_mix),
        ("train", settings.train, in_domain, rl_mix),
        ("sft", settings.sft, in_domain + out_of_domain, sft_mix),
    ):
        rng = random.Random(f"{settings.seed}/questions/{name}")  # no file's size changes another's random numbers
        files[name] = _draw_distinct(name, size, partial(draw, rng, topics, mix), texts)
    return files


def _draw_distinct(name: str, size: int, draw: Callable[[], Q | None], texts: set[str]) -> list[Q]:
    """Draw questions whose texts are not in `texts`, and add them there."""
    questions = list[Q]()
    for _ in range(DRAWS_PER_QUESTION * size):
        question = draw()
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


def write_files(
    folder: Path, files: dict[str, list[Q]], row_of: Callable[[Q], dict], solutions: Callable[[Q], list[str]]
) -> None:
    """Write DIR/<file>.parquet for each of draw_files.

    Args:
        row_of: a question's row without its id, index and split.
        solutions: the column that sft.parquet has too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, questions in files.items():
        rows = []
        for index, question in enumerate(questions):
            row = row_of(question)
            extra_info = {"index": index, "split": name} | row.pop("extra_info")
            row |= {"id": FIRST_IDS[name] + index, "extra_info": extra_info}
            rows.append(row | {"solutions": solutions(question)} if name == "sft" else row)
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
