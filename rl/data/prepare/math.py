"""The math commands: DAPO-Math-17K and the test sets of the paper."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rl.common.errors import UserError
from rl.data.benchmarks import MATH_TESTS
from rl.data.prepare.ground_truth import answer_text, boxed_answer, gsm8k_answer, several_answers, without_e_notation
from rl.data.prepare.prompt_template import math_prompt
from rl.data.prepare.published import Input, Record, download, read_records
from rl.data.prepare.row_writer import MATH_ROWS, BadRecord, RowWriter, row_id

# DAPO-Math-17K's text around a problem. It asks for a line "Answer: ...", while our prompt asks for a box.
_DAPO_HEAD = re.compile(r"Solve the following math problem step by step\.[^\n]*\n+")
_DAPO_TAIL = re.compile(r"\n+Remember to put your answer on its own line after \"Answer:\"\.?$")
_IMAGE = re.compile(r"<image_?\d*>")
_SUFFIXES = (".jsonl", ".parquet", ".json")


def prepare_dapo(files: Sequence[Input], output: Path) -> str:
    """Write a row for each problem of DAPO-Math-17K, in the order of their first rows, and return a summary.

    A problem with different answers is left out. Memory grows with the problems, not with the rows.
    """
    # Each problem's first row, numbered over all files, and all answers of its rows, in a dict to keep their order.
    problems: dict[str, tuple[Record, dict[str, None]]] = {}
    rows = 0
    with RowWriter(output, MATH_ROWS, files) as writer:
        for file in (source.path for source in files):
            for position, values in enumerate(read_records(file, ("prompt", "reward_model"), ("extra_info",))):
                try:
                    text, answer = _read_dapo(values)
                    problems.setdefault(text, (Record(rows, file, position, values), {}))[1][answer] = None
                except BadRecord as error:
                    writer.reject(file, position, str(error), about=values)
                rows += 1
        repeated = rows - writer.rejected - len(problems)
        for text, (first, answers) in problems.items():
            try:
                writer.add(_dapo_row(text, first, [*answers]))
            except BadRecord as error:
                kind = "its rows have different answers" if len(answers) > 1 else None
                writer.reject(first.file, first.position, str(error), kind=kind, about=text)
    return f"{rows} rows; {repeated} of them repeat an earlier one.\n{writer.summary()}"


def find_test_sets(folder: Path | None, wanted: Sequence[str], *, fetch: bool) -> dict[str, Input]:
    """Find or download the file of each test set, by its name.

    Args:
        folder: has NAME/test.jsonl, NAME.jsonl or the same as .parquet or .json.
        wanted: names of test sets; [] for all that are found.
        fetch: whether to download missing files.
    """
    if folder is not None and not folder.is_dir():
        raise UserError(f"--input {folder} is not a folder: give the one with the test sets.")
    found = {} if folder is None else _in_folder(folder)
    absent = [name for name in wanted or MATH_TESTS if name not in found]
    if fetch:
        found |= download({name: MATH_TESTS[name].hub for name in absent})
    elif absent and (wanted or not found):
        raise UserError(
            f"There is no {absent[0]}/test.jsonl or {absent[0]}.parquet in --input {folder}: give the folder of the "
            f"test sets ({', '.join(MATH_TESTS)}), or --download."
        )
    return {name: found[name] for name in wanted or MATH_TESTS if name in found}


def prepare_test_set(name: str, source: Input, output: Path) -> str:
    """Write the rows of a test set and return a summary."""
    read = READERS[MATH_TESTS[name].reader]
    with RowWriter(output, MATH_ROWS, [source]) as writer:
        for position, values in enumerate(read_records(source.path)):
            try:
                if not isinstance(values, Mapping):
                    raise BadRecord("it is not a JSON object")
                known = {str(key).lower(): value for key, value in values.items()}
                writer.add(_row(name, "test", position, source.path, *read(known), known))
            except BadRecord as error:
                writer.reject(source.path, position, str(error), about=values)
    return f"{name}: {writer.rows + writer.rejected} problems in {source.path}.\n{writer.summary()}"


def _in_folder(folder: Path) -> dict[str, Input]:
    """The first file of each test set; NAME/test.* comes before NAME.*."""
    found = {}
    for name, test_set in MATH_TESTS.items():
        stems = [stem for known_as in (name, *test_set.aliases) for stem in (f"{known_as}/test", known_as)]
        paths = [folder / f"{stem}{suffix}" for stem in stems for suffix in _SUFFIXES]
        if path := next(filter(Path.is_file, paths), None):
            found[name] = Input(path)
    return found


def _read_dapo(values: Any) -> tuple[str, str]:
    """(problem, answer) of a row"""
    if not isinstance(values, Mapping):
        raise BadRecord("it is not a JSON object")
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


def _dapo_row(text: str, first: Record, answers: Sequence[str]) -> dict[str, Any]:
    if len(answers) > 1:
        raise BadRecord(f"its rows have different answers: {', '.join(answers)}")
    extra_info = first.values.get("extra_info")
    known = {"id": extra_info.get("index")} if isinstance(extra_info, Mapping) else {}
    return _row("math_dapo", "train", first.number, first.file, text, answers[0], known)


def _row(
    dataset: str, split: str, number: int, file: Path, problem: str, answer: str, known: Mapping[str, Any]
) -> dict[str, Any]:
    """A row of the output; `known` has the record's values for extra_info."""

    def first(*keys: str) -> str | None:
        return next((str(known[key]) for key in keys if known.get(key) is not None), None)

    return {
        "data_source": dataset,
        "prompt": [{"role": "user", "content": math_prompt(problem)}],
        "reward_model": {"style": "rule", "ground_truth": answer},
        "id": row_id(dataset, split, number),
        "extra_info": {
            "index": number,
            "split": split,
            "source": file.name,
            "source_id": first("unique_id", "id", "question_number", "idx"),
            "subject": first("subject", "subfield", "data_topic", "type"),
            "level": first("level", "difficulty"),
        },
    }


def _problem(values: Mapping[str, Any]) -> str:
    for key in ("problem", "question"):
        if isinstance(values.get(key), str) and values[key].strip():
            return values[key].strip()
    raise BadRecord("it has no problem or question")


def _with_answer(values: Mapping[str, Any]) -> tuple[str, str]:
    return _problem(values), answer_text(values.get("answer"))


def _with_solution(values: Mapping[str, Any]) -> tuple[str, str]:
    """The answer of the Hub's copy, or the box in the solution of the published file."""
    if values.get("solution") is None and values.get("answer") is not None:
        return _problem(values), without_e_notation(answer_text(values["answer"]))
    return _problem(values), boxed_answer(values.get("solution"))


def _with_marker(values: Mapping[str, Any]) -> tuple[str, str]:
    return _problem(values), gsm8k_answer(values.get("answer"))


def _with_final_answer(values: Mapping[str, Any]) -> tuple[str, str]:
    problem, context = _problem(values), values.get("context")
    if isinstance(context, str) and context.strip():
        problem = f"{context.strip()}\n\n{problem}"
    if _IMAGE.search(problem):
        raise BadRecord("its problem has an image")
    return problem, several_answers(values.get("final_answer"), multiple=values.get("is_multiple_answer") is True)


# Readers of (problem, answer), by the key of a record's answer. They take lower-case keys, and raise BadRecord.
READERS = {"answer": _with_answer, "solution": _with_solution, "####": _with_marker, "final_answer": _with_final_answer}
