"""Supervised fine-tuning of the tiny model, on random (question, style) pairs."""

import math
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from tqdm import tqdm

from rl.common.errors import UserError
from rl.demo.tokenizer import response_text

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

IGNORED = -100


@dataclass(frozen=True)
class SftSettings:
    """AdamW with a linear warm-up and a cosine decay to `final_lr_share` of the learning rate."""

    steps: int = 500
    batch_size: int = 64
    lr: float = 3e-3
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.01
    warmup_steps: int = 50
    final_lr_share: float = 0.05
    max_grad_norm: float = 1.0


@dataclass(frozen=True)
class Example:
    """A question's token ids, and those of its solutions in each style, END included."""

    prompt: list[int]
    solutions: list[list[int]]


def load_examples(path: Path, tokenizer: "PreTrainedTokenizerFast") -> list[Example]:
    """Tokenize the rows of sft.parquet.

    Raises:
        UserError: the file is missing.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist; delete {path.parent} and run python -m rl.demo.task again.")
    rows = pq.read_table(path, columns=["prompt", "solutions"]).to_pylist()
    examples = []
    for row in rows:
        prompt = tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, tokenize=False)
        answers = [response_text(solution) + tokenizer.eos_token for solution in row["solutions"]]
        prompt_ids, *solution_ids = tokenizer([prompt, *answers], add_special_tokens=False)["input_ids"]
        examples.append(Example(prompt_ids, solution_ids))
    return examples


def fine_tune(model: "PreTrainedModel", examples: list[Example], settings: SftSettings, seed: int) -> list[float]:
    """Train `model` in place; returns the loss per step, the mean negative log-likelihood per response token in nats.

    Questions are drawn with replacement and styles uniformly, from `seed` alone.
    """
    import torch
    import torch.nn.functional as F

    rng = random.Random(f"{seed}/sft")
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.lr, betas=settings.betas, weight_decay=settings.weight_decay
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _lr_share(step, settings))
    model.train()
    losses = []
    progress = tqdm(range(settings.steps), desc="fine-tuning the tiny model", unit="step")
    for _ in progress:
        batch = rng.choices(examples, k=settings.batch_size)
        input_ids, labels = collate([(example.prompt, rng.choice(example.solutions)) for example in batch])
        logits = model(input_ids=input_ids).logits
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        progress.set_postfix(loss=f"{losses[-1]:.3f}", refresh=False)
    model.eval()
    return losses


def collate(pairs: list[tuple[list[int], list[int]]]) -> "tuple[torch.Tensor, torch.Tensor]":
    """Input ids and labels, both [batch, longest] int64, of (prompt, response) pairs.

    Rows are padded on the right, which causal attention never sees, so no mask is needed. Labels are IGNORED except on
    the response.
    """
    import torch

    longest = max(len(prompt) + len(response) for prompt, response in pairs)
    input_ids = torch.zeros(len(pairs), longest, dtype=torch.long)
    labels = torch.full_like(input_ids, IGNORED)
    for row, (prompt, response) in enumerate(pairs):
        end = len(prompt) + len(response)
        input_ids[row, :end] = torch.tensor(prompt + response)
        labels[row, len(prompt) : end] = torch.tensor(response)
    return input_ids, labels


def _lr_share(step: int, settings: SftSettings) -> float:
    warmup = min(1.0, (step + 1) / settings.warmup_steps)
    cosine = 0.5 * (1 + math.cos(math.pi * step / settings.steps))
    return warmup * (settings.final_lr_share + (1 - settings.final_lr_share) * cosine)
