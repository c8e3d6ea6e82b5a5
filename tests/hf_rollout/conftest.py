"""A random Llama with a word-level tokenizer, written to disk as a user's model would be."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

WORDS = ["<pad>", "<eos>", "<unk>", "<bos>", *(f"w{i}" for i in range(28))]
TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"


@pytest.fixture(scope="session")
def make_tiny_model(word_llama) -> Callable[..., Path]:
    def make(path: Path, *, padded_vocabulary: int = len(WORDS), tied: bool = True) -> Path:
        shape = {"num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.3}
        limits = {"vocab_size": padded_vocabulary, "max_position_embeddings": 128, "tie_word_embeddings": tied}
        word_llama(path, WORDS, template=TEMPLATE, **shape, **limits)
        return path

    return make


@pytest.fixture(scope="session")
def tiny_model_path(tmp_path_factory: pytest.TempPathFactory, make_tiny_model) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny_model(tiny_model_path: Path, device: str) -> LlamaForCausalLM:
    return LlamaForCausalLM.from_pretrained(tiny_model_path, dtype=torch.float32).eval().to(device)
