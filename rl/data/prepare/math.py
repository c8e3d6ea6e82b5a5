"""The math commands: DAPO-Math-17K and the test sets of the paper."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rl.common.errors import UserError
from rl.data.benchmarks import DATASETS, HUB_FILES, MATH
from rl.data.prepare.download import Input, download
from rl.data.prepare.ground_truth import answer_text, boxed_answer, gsm8k_answer, several_answers, without_e_notation
from rl.data.prepare.inputs import read_records
from rl.data.prepare.prompt_template import math_prompt
from rl.data.prepare.row_writer import MATH_ROWS, BadRecord, RowWriter, row_id

# What DAPO-Math-17K puts around a problem, to ask for a line "Answer: ..." where our prompt asks for a box.
_DAPO_HEAD = re.compile(r"Solve the following math problem step by step\.[^\n]*\n+")
_DAPO_TAIL = re.compile(r"\n+Remember to put your answer on its own line after \"Answer:\"\.?$")
_IMAGE = re.compile(r"<image_?\d*>")
_SUFFIXES = (".jsonl", ".parquet", ".json")


@dataclass
class DapoProblem:
    """A problem of DAPO-Math-17K, at its first occurrence.

    Attributes:
        number: of that row over all files.
        position: of that row in `file`.
        answers: all answers that its rows have; a dict, for its order.
    """

    text: str
    number: int
    file: Path
    position: int
    source_id: str | None
    answers: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True)
class TestSet:
    """A test set.

    Attributes:
        name: also its rows' data_source.
        others: what its folder or file is called elsewhere.
        read: (problem, answer) of a record; raises BadRecord.
    """

    __test__ = False  # for pytest: no class of tests

    name: str
    others: tuple[str, ...]
    read: Callable[[Mapping[str, Any]], tuple[str, str]]


def prepare_dapo(files: Sequence[Input], output: Path) -> tuple[RowWriter, int, int]:
    """Write a row for each problem of DAPO-Math-17K, in the order of their first occurrence in the files.

    A problem with different answers is left out. Memory grows with the problems, not with the rows.

    Returns:
        The closed writer, how many rows the files have, and how many of them repeat an earlier one.

    Raises:
        UserError: a file cannot be read or is another one, or no record makes a row.
    """
    problems: dict[str, DapoProblem] = {}
    repeated = number = 0
    with RowWriter(output, MATH_ROWS, files) as writer:
        for file in (source.path for source in files):
            for position, values in enumerate(read_records(file, ("prompt", "reward_model"), ("extra_info",))):
                try:
                    text, answer = _read_dapo(values)
                except BadRecord as error:
                    writer.reject(file, position, str(error), about=values)
                else:
                    known = problems.get(text)
                    if known is None:
                        known = DapoProblem(text, number, file, position, _dapo_index(values))
                        problems[text] = known
                    else:
                        repeated += 1
                    known.answers[answer] = None
                number += 1
        for problem in problems.values():
            try:
                writer.add(_dapo_row(problem))
            except BadRecord as error:
                kind = "its rows have different answers" if len(problem.answers) > 1 else None
                writer.reject(problem.file, problem.position, str(error), kind=kind, about=problem.text)
    return writer, number, repeated


def find_test_sets(
    folder: Path | None, files: Sequence[str], wanted: Sequence[str], *, fetch: bool
) -> dict[str, Input]:
    """The file of each test set that is there or that the Hub has, by its name.

    Args:
        folder: has NAME/test.jsonl, NAME.jsonl or the same as .parquet or .json.
        files: NAME=FILE each; they go before the folder.
        wanted: names; [] for all that are found.
        fetch: whether to download what is not there.

    Raises:
        UserError: a name is unknown, a wanted test set or a folder is missing, nothing is found, or a download fails.
    """
    named: dict[str, Path] = {}
    for text in files:
        name, equals, file = text.partition("=")
        if not equals or name not in TEST_SETS:
            raise UserError(f"--file {text} is not NAME=FILE with a NAME of {', '.join(TEST_SETS)}.")
        named[name] = Path(file)
    if unknown := [name for name in wanted if name not in TEST_SETS]:
        raise UserError(f"--only {unknown[0]} is no test set: give some of {', '.join(TEST_SETS)}.")
    if folder is not None and not folder.is_dir():
        raise UserError(f"--input {folder} is no folder: give the one with the test sets.")
    found = {}
    for name in wanted or TEST_SETS:
        path = named.get(name) or (_find(folder, TEST_SETS[name]) if folder is not None else None)
        if path is not None:
            found[name] = Input(path)
        elif wanted and not fetch:
            where = f"in --input {folder}" if folder is not None else "without --input"
            raise UserError(f"There is no {name}/test.jsonl {where}: give its file with --file {name}=FILE.")
    if fetch:
        hub = {name: HUB_FILES[name] for name in wanted or TEST_SETS if name not in found}
        then = "name each after its test set, such as aime24.parquet, in a folder for --input"
        found |= download(hub, then=then)
    elif not found:
        raise UserError(
            f"No test set is found in --input {folder}: it should have NAME/test.jsonl or NAME.parquet, NAME being one "
            f"of {', '.join(TEST_SETS)}."
        )
    return found


def prepare_test_set(name: str, source: Input, output: Path) -> RowWriter:
    """Write the rows of a test set and return the closed writer.

    Raises:
        UserError: the file cannot be read, or no record makes a row.
    """
    test_set, file = TEST_SETS[name], source.path
    with RowWriter(output, MATH_ROWS, [source]) as writer:
        for position, values in enumerate(read_records(file)):
            try:
                if not isinstance(values, Mapping):
                    raise BadRecord("it is no JSON object")
                problem, answer = test_set.read({str(key).lower(): value for key, value in values.items()})
                writer.add(_test_row(name, file, position, values, problem, answer))
            except BadRecord as error:
                writer.reject(file, position, str(error), about=values)
    return writer


def _read_dapo(values: Any) -> tuple[str, str]:
    """(problem, answer) of a row"""
    if not isinstance(values, Mapping):
        raise BadRecord("it is no JSON object")
    messages, reward_model = values.get("prompt"), values.get("reward_model")
    if not isinstance(messages, list) or len(messages) != 1 or not isinstance(messages[0], Mapping):
        raise BadRecord("its prompt is not one message")
    text = messages[0].get("content")
    if not isinstance(text, str) or not text.strip():
        raise BadRecord("its prompt has no text")
    text = text.strip()
    head, tail = _DAPO_HEAD.match(text), _DAPO_TAIL.search(text)
    if (head is None) != (tail is None):
        raise BadRecord("its prompt has only one half of DAPO's instructions around the problem")
    if head and tail:
        text = text[head.end() : tail.start()].strip()
    if not text:
        raise BadRecord("its prompt has no problem")
    return text, answer_text(reward_model.get("ground_truth") if isinstance(reward_model, Mapping) else None)


def _dapo_index(values: Mapping[str, Any]) -> str | None:
    extra_info = values.get("extra_info")
    return _text(extra_info.get("index")) if isinstance(extra_info, Mapping) else None


def _dapo_row(problem: DapoProblem) -> dict[str, Any]:
    if len(problem.answers) > 1:
        raise BadRecord(f"its rows have different answers: {', '.join(problem.answers)}")
    [answer] = problem.answers
    details = {"source_id": problem.source_id, "subject": None, "level": None}
    return _row("math_dapo", "train", problem.number, problem.file, problem.text, answer, details)


def _test_row(
    name: str, file: Path, position: int, values: Mapping[str, Any], problem: str, answer: str
) -> dict[str, Any]:
    values = {str(key).lower(): value for key, value in values.items()}

    def first(*keys: str) -> str | None:
        return next((_text(values[key]) for key in keys if values.get(key) is not None), None)

    details = {
        "source_id": first("unique_id", "id", "question_number", "idx"),
        "subject": first("subject", "subfield", "data_topic", "type"),
        "level": first("level", "difficulty"),
    }
    return _row(name, "test", position, file, problem, answer, details)


def _row(
    dataset: str, split: str, number: int, file: Path, problem: str, answer: str, details: dict[str, Any]
) -> dict[str, Any]:
    return {
        "data_source": dataset,
        "prompt": [{"role": "user", "content": math_prompt(problem)}],
        "reward_model": {"style": "rule", "ground_truth": answer},
        "id": row_id(dataset, split, number),
        "extra_info": {"index": number, "split": split, "source": file.name, **details},
    }


def _problem(values: Mapping[str, Any]) -> str:
    for key in ("problem", "question"):
        if isinstance(values.get(key), str) and values[key].strip():
            return values[key].strip()
    raise BadRecord("it has no problem or question")


def _with_answer(values: Mapping[str, Any]) -> tuple[str, str]:
    return _problem(values), answer_text(values.get("answer"))


def _minerva(values: Mapping[str, Any]) -> tuple[str, str]:
    """The Hub's copy has the answer alone, the published file a solution with a box."""
    if values.get("solution") is None and values.get("answer") is not None:
        return _problem(values), without_e_notation(answer_text(values["answer"]))
    return _problem(values), boxed_answer(values.get("solution"))


def _gsm8k(values: Mapping[str, Any]) -> tuple[str, str]:
    return _problem(values), gsm8k_answer(values.get("answer"))


def _olympiadbench(values: Mapping[str, Any]) -> tuple[str, str]:
    problem, context = _problem(values), values.get("context")
    if isinstance(context, str) and context.strip():
        problem = f"{context.strip()}\n\n{problem}"
    if _IMAGE.search(problem):
        raise BadRecord("its problem has an image")
    return problem, several_answers(values.get("final_answer"), multiple=values.get("is_multiple_answer") is True)


_READERS = {"olympiadbench": _olympiadbench, "minerva_math": _minerva, "gsm8k": _gsm8k}
TEST_SETS = {
    dataset.name: TestSet(dataset.name, dataset.aliases, _READERS.get(dataset.name, _with_answer))
    for dataset in DATASETS
    if (dataset.kind, dataset.split) == (MATH, "test")
}


def _find(folder: Path, test_set: TestSet) -> Path | None:
    """The first file of the test set; a folder's test file goes before a file of its name."""
    for name in (test_set.name, *test_set.others):
        for stem in (folder / name / "test", folder / name):
            for suffix in _SUFFIXES:
                path = stem.with_name(stem.name + suffix)
                if path.is_file():
                    return path
    return None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
