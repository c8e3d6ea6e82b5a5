"""Make a model for your own SQL questions, to try the whole pipeline on a CPU.

    python -m rl.demo.own_model mine/train.parquet --out mine/model
    python -m rl.demo.own_model mine/train.parquet --out mine/smollm2 --model smollm2

The first makes the demo's tiny model (base_model.py) with the words of your questions and gold queries. It learns every
other question by heart, and answers each of the rest as often with the gold query as with another question's. So the
split finds D_pef and D_exp, and training has something to improve. The model cannot answer other questions.

The second fine-tunes a pretrained model (pretrained.py) on every other question, with its whole prompt. What the model
makes of the others is its own.
"""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from rl.checks.files import check_model
from rl.common.cli import output_folder, user_errors_exit
from rl.common.errors import UserError
from rl.data.rows import read_rows
from rl.demo.base_model import SEED, Example, SftSettings, Shape, build_model, check_new, tokenized, train_model
from rl.demo.models import SMOLLM2
from rl.demo.pretrained import SFT, load, smollm2
from rl.demo.tokenizer import build_tokenizer, question_line, response_text

TINY_STEPS = 200
# On the 31 questions of docs/tutorials/own-database.md Pass@1 is .51; after a third step it is .94.
PRETRAINED = replace(SFT, steps=2, batch_size=8, lr=1e-4)


def make_own_model(data: Path, folder: Path, settings: SftSettings) -> tuple[int, int]:
    """Train a model on the SQL questions of a prepared parquet and write `folder`.

    Returns:
        The tokens of the longest prompt and of the longest response.

    Raises:
        UserError: `data` has no SQL questions or only one gold query, or `folder` exists.
    """
    pairs = [(question_line(prompt[-1]["content"]), gold) for prompt, gold in _read(data)]
    words = {word for pair in pairs for text in pair for word in text.replace("\n", " ").split(" ") if word}
    tokenizer = build_tokenizer(words)
    examples = []
    for number, (question, gold) in enumerate(pairs):
        other = next(sql for _, sql in [*pairs[number + 1 :], *pairs] if sql != gold)
        prompt = [{"role": "user", "content": question}]
        solutions = [gold, other] if number % 2 else [gold]
        examples.append(tokenized(tokenizer, prompt, map(response_text, solutions)))
    longest = _longest(examples)
    positions = max(Shape.max_position_embeddings, 2 * sum(longest))
    model = build_model(tokenizer, replace(Shape(), max_position_embeddings=positions), SEED)
    train_model(folder, model, tokenizer, examples, settings)
    return longest


def fine_tune_pretrained(
    asked: list[tuple[list[dict], str]], folder: Path, source: str, settings: SftSettings
) -> tuple[int, int]:
    """Fine-tune a pretrained model on every other SQL question and write `folder`.

    Args:
        asked: the questions' messages and gold queries.
        source: a Hugging Face folder, or a name on the Hub.

    Returns:
        The tokens of the longest prompt and of the longest gold response of all questions.

    Raises:
        UserError: as `load` of pretrained.py.
    """
    model, tokenizer = load(source)
    examples = [tokenized(tokenizer, prompt, [response_text(gold)]) for prompt, gold in asked]
    train_model(folder, model, tokenizer, examples[::2], settings)
    return _longest(examples)


def _longest(examples: list[Example]) -> tuple[int, int]:
    """The tokens of the longest prompt and of the longest solution."""
    responses = (ids for example in examples for ids in example.solutions)
    return max(len(example.prompt) for example in examples), max(map(len, responses))


def _read(data: Path) -> list[tuple[list[dict], str]]:
    """(the prompt's messages, its gold query) of each row."""
    if not data.is_file():
        raise UserError(f"{data} does not exist: prepare the questions first (docs/tutorials/own-database.md).")
    pairs = []
    for row in read_rows([data]):
        if "gold_sql" not in row.question:
            raise UserError(f"{data} has a row without gold_sql (id {row.id}): give SQL prompts of dph prepare.")
        pairs.append((row.messages, row.question["gold_sql"]))
    if len({gold for _, gold in pairs}) < 2:
        raise UserError(f"{data} has fewer than two different gold queries: the model needs a wrong answer too.")
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m rl.demo.own_model",
        description="Make a model for your own SQL questions, to try the pipeline on a CPU: a tiny one, which learns "
        "every other question by heart, answers the rest right about half of the time and can answer nothing else, or "
        "a pretrained one, which is fine-tuned on every other question.",
    )
    parser.add_argument("data", type=Path, help="parquet of prepared SQL prompts")
    parser.add_argument("--out", type=output_folder, required=True, metavar="DIR", help="folder of the model")
    parser.add_argument("--model", help=f"{SMOLLM2.name} (SmolLM2-135M-Instruct), or a Hugging Face folder")
    parser.add_argument(
        "--steps",
        type=int,
        help=f"steps of fine-tuning, default {TINY_STEPS}, with --model {PRETRAINED.steps} (for 30 like questions)",
    )
    arguments = parser.parse_args()
    settings = PRETRAINED if arguments.model is not None else SftSettings(steps=TINY_STEPS)
    if arguments.steps is not None:
        settings = replace(settings, steps=arguments.steps)
    with user_errors_exit():
        if settings.steps < 0:
            raise UserError(f"--steps is {settings.steps}: give 0 (no fine-tuning) or more.")
        if arguments.model is not None:
            if arguments.model != SMOLLM2.name:
                check_model("--model", arguments.model)
            check_new(arguments.out)
            pairs = _read(arguments.data)  # before the download
            source = smollm2() if arguments.model == SMOLLM2.name else os.path.expanduser(arguments.model)
            prompt, response = fine_tune_pretrained(pairs, arguments.out, source, settings)
        else:
            prompt, response = make_own_model(arguments.data, arguments.out, settings)
        sys.stdout.write(
            f"Wrote the model to {arguments.out}. The longest prompt and response need\n"
            f"data.max_prompt_length={prompt} data.max_response_length={response}\n"
        )


if __name__ == "__main__":
    main()
