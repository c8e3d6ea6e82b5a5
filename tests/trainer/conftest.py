"""A tiny random causal LM in a Hugging Face folder, made from a seed."""

import pytest

WORDS = ["<pad>", "<eos>", "<unk>", *(f"w{i}" for i in range(61))]
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


@pytest.fixture(scope="session")
def random_model(tmp_path_factory, word_llama):
    """Folder of a Llama with 64 words, 2 layers and hidden size 32, float32, random weights of a fixed seed."""
    folder = tmp_path_factory.mktemp("random_model")
    size = {"max_position_embeddings": 128, "tie_word_embeddings": True, "initializer_range": 0.3}
    word_llama(folder, WORDS, template=TEMPLATE, **size)
    return str(folder)
