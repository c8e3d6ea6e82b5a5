"""Train a tiny model on your own SQL questions, to try the whole pipeline on a CPU.

    python -m rl.demo.own_model mine/train.parquet --out mine/model

It is the demo's model (base_model.py) with the words of your questions and gold queries. It learns every other question
by heart, and answers each of the rest as often with the gold query as with another question's. So the split finds D_pef
and D_exp, and training has something to improve. The model cannot answer other questions.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.demo.base_model import SftSettings, Shape, tokenized, train_model
from rl.demo.tokenizer import build_tokenizer, question_line, response_text


def make_own_model(data: Path, folder: Path, settings: SftSettings) -> tuple[int, int]:
    """Train a model on the SQL questions of a prepared parquet and write `folder`.

    Returns:
        The tokens of the longest prompt and of the longest response.

    Raises:
        UserError: `data` has no SQL questions or only one gold query, or `folder` exists.
    """
    pairs = _read(data)
    words = {word for pair in pairs for text in pair for word in text.replace("\n", " ").split(" ") if word}
    tokenizer = build_tokenizer(words)
    examples = []
    for number, (question, gold) in enumerate(pairs):
        other = next(sql for _, sql in [*pairs[number + 1 :], *pairs] if sql != gold)
        prompt = [{"role": "user", "content": question}]
        solutions = [gold, other] if number % 2 else [gold]
        examples.append(tokenized(tokenizer, prompt, map(response_text, solutions)))
    longest_prompt = max(len(example.prompt) for example in examples)
    longest_response = max(len(ids) for example in examples for ids in example.solutions)
    positions = max(Shape.max_position_embeddings, 2 * (longest_prompt + longest_response))
    train_model(folder, tokenizer, examples, settings, replace(Shape(), max_position_embeddings=positions))
    return longest_prompt, longest_response


def _read(data: Path) -> list[tuple[str, str]]:
    """(the question's first line, its gold query) of each row."""
    if not data.is_file():
        raise UserError(f"{data} does not exist: prepare the questions first (docs/tutorials/own-database.md).")
    pairs = []
    for row in pq.read_table(data).to_pylist():
        truth = row["reward_model"]["ground_truth"]
        if not isinstance(truth, dict) or not truth.get("gold_sql"):
            raise UserError(f"{data} has a row without gold_sql (id {row['id']}): give SQL prompts of dph prepare.")
        pairs.append((question_line(row["prompt"][-1]["content"]), truth["gold_sql"]))
    if len({gold for _, gold in pairs}) < 2:
        raise UserError(f"{data} has fewer than two different gold queries: the model needs a wrong answer too.")
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m rl.demo.own_model",
        description="Train a tiny model on your own SQL questions, to try the pipeline on a CPU. It learns every other "
        "question by heart, answers the rest right about half of the time, and can answer nothing else.",
    )
    parser.add_argument("data", type=Path, help="parquet of prepared SQL prompts")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the model")
    parser.add_argument(
        "--steps", type=int, default=200, help="steps of fine-tuning, default %(default)s (for about 30 questions)"
    )
    arguments = parser.parse_args()
    with user_errors_exit():
        prompt, response = make_own_model(arguments.data, arguments.out, SftSettings(steps=arguments.steps))
        sys.stdout.write(
            f"Wrote the model to {arguments.out}. The longest prompt and response need\n"
            f"export MAX_PROMPT_LENGTH={prompt} MAX_RESPONSE_LENGTH={response}\n"
        )


if __name__ == "__main__":
    main()
