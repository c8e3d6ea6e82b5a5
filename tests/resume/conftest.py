"""The real trainer on a task of its own: a random model whose tokens are whole answers, the real scorer, a real store.

Random weights give right and wrong answers at once, so that nothing has to be trained before there is a gradient.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import torch

from tests.programs import SMALL_RUN, apart, output_of
from tests.tiny_run import metrics_of, prompt_row, save_store

ANSWERS = [
    "```sql\nSELECT name FROM item\n```",
    "```sql\nSELECT id FROM item\n```",
    "```sql\nSELECT nothing FROM item\n```",
]
SPECIAL = ["<pad>", "<eos>", "<unk>", "<user>", "<answer>"]
WORDS = [f"w{i}" for i in range(24)]
CHAT_TEMPLATE = "<user>{{ messages[0]['content'] }}{% if add_generation_prompt %}<answer>{% endif %}"
FIRST_STORED, FIRST_ANCHORED = 1000, 2000  # the ids
# 10 prompts are two steps of 4 and two that wait for the next epoch
PROMPTS, STORED, ANCHORED, VALIDATED = 10, 10, 7, 6
STOP, TOTAL = 3, 6  # steps: both halves of a resumed run cross an epoch of the prompts and of the store
SETTINGS = SMALL_RUN | {
    "VERBOSE": "1",
    "data.max_prompt_length": "16",
    "data.max_response_length": "24",
    "actor_rollout_ref.rollout.top_p": "0.95",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": "128",  # several micro-batches a mini-batch
    "trainer.save_freq": str(STOP),
    "actor_rollout_ref.rollout.val_kwargs.n": "2",
    "actor_rollout_ref.actor.checkpoint.save_contents": "[model,optimizer,extra,hf_model]",
    "actor_rollout_ref.actor.optim.lr_warmup_steps": "5",
    "actor_rollout_ref.actor.clip_ratio_high": "0.2",  # which the scripts choose differently
}
TIME_LIMIT_S = 280


def make_prompts(path: Path, first: int, count: int) -> None:
    """Prompts of one to six words, so that a batch holds several lengths."""
    rows = (prompt_row(i, content_of(i)) for i in range(first, first + count))
    pd.DataFrame(rows).to_parquet(path)


def content_of(id: int) -> str:
    return " ".join(WORDS[(id * 7 + j) % 24] for j in range(1 + id % 6))


def right_answers(first: int, count: int) -> Iterator[tuple[int, str, torch.Tensor]]:
    """After some words of their own."""
    for i in range(count):
        id = first + i
        yield id, content_of(id), torch.tensor([*(8 + (3 * i + j) % 24 for j in range(i % 3)), 5, 1])


class Task:
    """A folder with model/, train.parquet, val.parquet, pef.pt, anchor.pt and runs/."""

    def __init__(self, folder: Path, scorer: str, word_llama):
        self.folder, self.runs = folder, folder / "runs"
        size = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
        size["initializer_range"] = 0.15
        words = [*SPECIAL, *ANSWERS, *WORDS]
        word_llama(folder / "model", words, template=CHAT_TEMPLATE, joined=True, max_position_embeddings=64, **size)
        make_prompts(folder / "train.parquet", 0, PROMPTS)
        make_prompts(folder / "correct.parquet", FIRST_STORED, STORED)
        make_prompts(folder / "val.parquet", 100, VALIDATED)
        save_store(folder / "pef.pt", folder / "model", right_answers(FIRST_STORED, STORED))
        save_store(folder / "anchor.pt", folder / "model", right_answers(FIRST_ANCHORED, ANCHORED))
        self.environment = SETTINGS | {
            "MODEL_PATH": str(folder / "model"),
            "TRAIN_FILE": str(folder / "train.parquet"),
            "launch.train_wrong": str(folder / "train.parquet"),
            "launch.train_correct": str(folder / "correct.parquet"),
            "VAL_FILES": str(folder / "val.parquet"),
            "SFT_PT": str(folder / "pef.pt"),
            "OUTPUT_DIR": str(self.runs),
            "DPH_SCORER": scorer,
        }

    def train(self, script: str, name: str, *arguments: str, steps: int, **environment: str) -> str:
        """Run scripts/llama/`script`.sh to `steps`; it resumes from the newest checkpoint of `name`. Its output."""
        of_run = {f"trainer.{kind}_data_dir": str(self.folder / kind / name) for kind in ("rollout", "validation")}
        of_run["trainer.total_training_steps"] = str(steps)
        variables, words = apart(self.environment | of_run | environment)
        command = ["bash", f"scripts/llama/{script}.sh", name, *arguments, *words]
        return output_of(command, environment=os.environ | variables, timeout=TIME_LIMIT_S)

    def metrics(self, name: str) -> dict[int, dict[str, float]]:
        """Every metric of every step of a run, by step."""
        return metrics_of(self.runs / name / "metrics")

    def dumped(self, name: str, step: int, kind: str = "rollout") -> list[dict]:
        """The answers of a step as verl writes them; `kind` is rollout or validation."""
        return [json.loads(line) for line in (self.folder / kind / name / f"{step}.jsonl").read_text().splitlines()]

    def rollouts(self, name: str, step: int) -> list[tuple]:
        """(prompt, response, score) of every sample of a step."""
        return [(row["input"], row["output"], row["score"]) for row in self.dumped(name, step)]

    def checkpoint(self, name: str, step: int) -> Path:
        """The actor's checkpoint."""
        return self.runs / name / f"global_step_{step}" / "actor"


@pytest.fixture(scope="session")
def place(tmp_path_factory, scorer_server, word_llama):
    """A task without a run."""
    return Task(tmp_path_factory.mktemp("task"), scorer_server, word_llama)


@pytest.fixture(scope="session")
def task(place):
    """js_kl with an anchor at once, and resumed."""
    task = place
    settings = {"trainer.test_freq": str(STOP), "data.sft_anchor_pt": str(task.folder / "anchor.pt")}
    task.train("js_kl", "at_once", "0.2", steps=TOTAL, **settings)
    for steps in (STOP, TOTAL):
        task.train("js_kl", "resumed", "0.2", steps=steps, **settings)
    return task
