"""Train the demo's base model from scratch and write it as a Hugging Face folder.

    python -m rl.demo.base_model --task outputs/demo/task --out outputs/demo/model

About 250,000 parameters, one to two minutes on one CPU core. demo_model.json in it holds the settings and their hash; a
rerun with the same settings is skipped.
"""

import argparse
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rl.common.atomic_write import replacing
from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.demo.sft import SftSettings, fine_tune, load_examples
from rl.demo.stage_marks import read_mark, settings_hash, write_mark
from rl.demo.task import MARK as TASK_MARK
from rl.demo.tokenizer import CHAT_TEMPLATE, build_tokenizer

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

# Raise it when training or the written files change without a change of the settings.
FORMAT = "dph-demo-model/1"
MARK = "demo_model.json"


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
class ModelSettings:
    """Everything beside the task that decides the weights. Results are exact for a fixed number of threads."""

    seed: int = 0
    threads: int = 1
    shape: Shape = field(default_factory=Shape)
    sft: SftSettings = field(default_factory=SftSettings)


def make_model(task: Path, folder: Path, settings: ModelSettings) -> bool:
    """Train the base model on `task`'s sft.parquet and write `folder`; False if it exists with these settings.

    Raises:
        UserError: the task does not exist, or `folder` holds something else.
    """
    task_mark = read_mark(task / TASK_MARK)
    if task_mark is None:
        raise UserError(f"{task} holds no demo task; write it first: python -m rl.demo.task --out {task}")
    identity = {"format": FORMAT, "task": task_mark["hash"], "chat_template": CHAT_TEMPLATE, **asdict(settings)}
    mark = read_mark(folder / MARK)
    if mark is not None and mark["hash"] == settings_hash(identity):
        return False
    if mark is None and folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} holds files but no {MARK}, so it is not a demo model; choose another folder.")

    import torch

    torch.set_num_threads(settings.threads)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer, settings.shape, settings.seed)
    fine_tune(model, load_examples(task / "sft.parquet", tokenizer), settings.sft, settings.seed)

    with replacing(folder) as temporary:
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        write_mark(temporary / MARK, identity)
    return True


def build_model(tokenizer: "PreTrainedTokenizerFast", shape: Shape, seed: int) -> "LlamaForCausalLM":
    """A model with random float32 weights and one embedding per token.

    Of type llama, because transformers forces Qwen's own tokenizer class on any model of type qwen2; only the biases of
    queries, keys and values differ.
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


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m rl.demo.base_model", description="Train the demo's base model from scratch."
    )
    parser.add_argument("--task", type=Path, required=True, metavar="DIR", help="folder of the demo's task")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the model")
    parser.add_argument("--seed", type=int, default=ModelSettings.seed, help="default %(default)s")
    parser.add_argument("--threads", type=int, default=ModelSettings.threads, help="CPU threads, default %(default)s")
    arguments = parser.parse_args()
    with user_errors_exit():
        settings = ModelSettings(seed=arguments.seed, threads=arguments.threads)
        if make_model(arguments.task, arguments.out, settings):
            sys.stdout.write(f"Wrote the demo's base model to {arguments.out}.\n")
        else:
            sys.stdout.write(f"The demo's base model in {arguments.out} already has these settings: skipped.\n")


if __name__ == "__main__":
    main()
