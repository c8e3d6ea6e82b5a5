"""Train the demo's base model from scratch and write it as a Hugging Face folder.

    python -m rl.demo.base_model --task outputs/demo/task --out outputs/demo/model

It has about 250,000 parameters and takes one to two minutes on one CPU core.
"""

import argparse
import math
import random
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from tqdm import tqdm

from rl.common.atomic_write import replacing
from rl.common.cli import output_folder, user_errors_exit
from rl.common.errors import UserError
from rl.configuration.names import has_bf16
from rl.demo.tokenizer import build_tokenizer, response_text

if TYPE_CHECKING:
    import torch
    from transformers import LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

IGNORED = -100
SEED = 0
FINAL_LR_SHARE, MAX_GRAD_NORM = 0.05, 1.0


@dataclass(frozen=True)
class Shape:
    """The transformer's size; the embedding is also the output layer."""

    hidden_size: int = 96
    intermediate_size: int = 288
    num_hidden_layers: int = 2
    num_attention_heads: int = 3
    num_key_value_heads: int = 1
    max_position_embeddings: int = 128
    initializer_range: float = 0.05


@dataclass(frozen=True)
class SftSettings:
    """AdamW with a linear warm-up and a cosine decay to FINAL_LR_SHARE of the learning rate.

    A small model is trained with one thread, so that a seed gives the same weights on every machine of one kind. A
    `large_model` has all threads, and the GPU, where there is one. Its matrix products are in bfloat16 there, and on a
    CPU that has instructions for it, while the weights are float32, and the output layer computes only the columns in
    which some row has a response. All of this changes the weights' last digits.
    """

    steps: int = 500
    batch_size: int = 64
    lr: float = 3e-3
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.01
    warmup_steps: int = 50
    large_model: bool = False


SFT, SHAPE = SftSettings(), Shape()


@dataclass(frozen=True)
class Example:
    """The token ids of a question and of its solutions, END included."""

    prompt: list[int]
    solutions: list[list[int]]


def make_model(task: Path, folder: Path, sft: SftSettings = SFT, shape: Shape = SHAPE, seed: int = SEED) -> None:
    """Train the base model on the questions of `task`'s sft.parquet and write `folder`."""
    tokenizer, pairs = build_tokenizer(), solved_questions(task)
    examples = [tokenized(tokenizer, prompt, map(response_text, solutions)) for prompt, solutions in pairs]
    train_model(folder, build_model(tokenizer, shape, seed), tokenizer, examples, sft, seed)


def solved_questions(task: Path) -> list[tuple[list[dict], list[str]]]:
    """The messages and solutions of each prompt of `task`'s sft.parquet."""
    rows = pq.read_table(task / "sft.parquet", columns=["prompt", "solutions"]).to_pylist()
    return [(row["prompt"], row["solutions"]) for row in rows]


def check_new(folder: Path) -> None:
    """Raise a UserError if the folder exists."""
    if folder.exists():
        raise UserError(f"{folder} exists: delete it or choose another folder.")


def train_model(
    folder: Path,
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    examples: list[Example],
    sft: SftSettings,
    seed: int = SEED,
) -> None:
    """Train a model on the examples and write it with its tokenizer."""
    check_new(folder)
    fine_tune(model, examples, sft, seed)
    with replacing(folder) as temporary:
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)


def tokenized(tokenizer: "PreTrainedTokenizerFast", prompt: list[dict], responses: Iterable[str]) -> Example:
    """Tokenize a prompt's messages and its responses, which get an end token."""
    text = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
    answers = [response + tokenizer.eos_token for response in responses]
    prompt_ids, *solution_ids = tokenizer([text, *answers], add_special_tokens=False)["input_ids"]
    return Example(prompt_ids, solution_ids)


def build_model(tokenizer: "PreTrainedTokenizerFast", shape: Shape, seed: int) -> "LlamaForCausalLM":
    """A model with random float32 weights and one embedding per token.

    Its type is llama, because transformers forces Qwen's tokenizer class on models of type qwen2. The types differ only
    in the biases of queries, keys and values.
    """
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    special = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    config = LlamaConfig(
        vocab_size=len(tokenizer), tie_word_embeddings=True, dtype="float32", **special, **asdict(shape)
    )
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(do_sample=True, **special)
    return model


def fine_tune(model: "PreTrainedModel", examples: list[Example], settings: SftSettings, seed: int) -> list[float]:
    """Train `model` in place; return the loss per step, the mean negative log-likelihood per response token in nats.

    `seed` alone determines the draws: examples with replacement, and their solutions uniformly.
    """
    import torch
    import torch.nn.functional as F

    if not settings.large_model:
        torch.set_num_threads(1)
    device = "cuda" if settings.large_model and torch.cuda.is_available() else "cpu"
    model.to(device)
    rng = random.Random(f"{seed}/sft")
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.lr, betas=settings.betas, weight_decay=settings.weight_decay
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _lr_share(step, settings))
    model.train()
    losses = []
    progress = tqdm(range(settings.steps), desc="fine-tuning", unit="step")
    bf16 = settings.large_model and (device == "cuda" or has_bf16())
    for _ in progress:
        batch = rng.choices(examples, k=settings.batch_size)
        input_ids, labels = collate([(example.prompt, rng.choice(example.solutions)) for example in batch])
        first = int((labels != IGNORED).any(0).nonzero()[0]) if settings.large_model else 1
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            logits = model(input_ids=input_ids.to(device), logits_to_keep=labels.shape[1] - first + 1).logits
        targets = labels[:, first:].flatten().to(device)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), targets, ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        progress.set_postfix(loss=f"{losses[-1]:.3f}", refresh=False)
    model.eval()
    return losses


def collate(pairs: list[tuple[list[int], list[int]]]) -> "tuple[torch.Tensor, torch.Tensor]":
    """Input ids and labels of (prompt, response) pairs, both [batch, longest] int64.

    Rows are padded on the right, where causal attention does not look, so no mask is needed. Labels are IGNORED except
    on the response.
    """
    import torch
    from torch.nn.utils.rnn import pad_sequence

    rows = [torch.tensor(prompt + response) for prompt, response in pairs]
    labels = [torch.tensor([IGNORED] * len(prompt) + response) for prompt, response in pairs]
    return pad_sequence(rows, batch_first=True), pad_sequence(labels, batch_first=True, padding_value=IGNORED)


def _lr_share(step: int, settings: SftSettings) -> float:
    warmup = min(1.0, (step + 1) / settings.warmup_steps)
    cosine = 0.5 * (1 + math.cos(math.pi * step / max(settings.steps, 1)))  # torch asks for step 0 even if none follows
    return warmup * (FINAL_LR_SHARE + (1 - FINAL_LR_SHARE) * cosine)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m rl.demo.base_model", description="Train the demo's base model from scratch."
    )
    parser.add_argument("--task", type=Path, required=True, metavar="DIR", help="folder of the demo's task")
    parser.add_argument("--out", type=output_folder, required=True, metavar="DIR", help="new folder of the model")
    parser.add_argument("--steps", type=int, default=SFT.steps, help="of training, default %(default)s")
    parser.add_argument("--seed", type=int, default=SEED, help="default %(default)s")
    arguments = parser.parse_args()
    with user_errors_exit():
        make_model(arguments.task, arguments.out, replace(SFT, steps=arguments.steps), seed=arguments.seed)
        sys.stdout.write(f"Wrote the demo's base model to {arguments.out}.\n")


if __name__ == "__main__":
    main()
