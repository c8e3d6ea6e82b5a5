"""A random Llama with a word-level tokenizer, written to disk as a user's model would be."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = 28
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"


def save_tiny_model(path: Path, *, seed: int = 0, padded_vocabulary: int = 32, tied: bool = True) -> Path:
    """A model of 2 layers whose vocabulary is padded beyond the tokenizer's 32 ids if `padded_vocabulary` says so."""
    vocabulary = {"<pad>": 0, "<eos>": 1, "<unk>": 2, "<bos>": 3} | {f"w{i}": 4 + i for i in range(WORDS)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", chat_template=CHAT_TEMPLATE
    )
    config = LlamaConfig(
        vocab_size=padded_vocabulary,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=tied,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
    )
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def make_tiny_model() -> Callable[..., Path]:
    return save_tiny_model


@pytest.fixture(scope="session")
def tiny_model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny_model(tiny_model_path: Path) -> LlamaForCausalLM:
    return LlamaForCausalLM.from_pretrained(tiny_model_path, dtype=torch.float32).eval()


@pytest.fixture(scope="session")
def chi_square_p_value() -> Callable[[torch.Tensor, torch.Tensor], float]:
    """Pearson's test: how probable counts at least this far from the expected ones are."""

    def p_value(observed: torch.Tensor, expected: torch.Tensor) -> float:
        statistic = ((observed - expected) ** 2 / expected).sum().double()
        degrees = torch.tensor(len(expected) - 1, dtype=torch.float64)
        return float(torch.special.gammaincc(degrees / 2, statistic / 2))

    return p_value
