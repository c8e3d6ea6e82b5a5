"""A tiny model whose tokens are whole answers, so that even random weights give right, partly right and wrong ones."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

ANSWERS = (
    "```sql\nSELECT name FROM item\n```",
    "```sql\nSELECT name, price FROM item\n```",
    "```sql\nSELECT id FROM item\n```",
    "```sql\nSELECT name FROM item WHERE price > 2\n```",
    "```sql\nSELECT nothing FROM item\n```",
    "nothing",
)
WORDS = ("which", "names", "prices", "are", "there")
END = "<eos>"
TRUTH = {"db_id": "shop/shop.sqlite", "gold_sql": "SELECT name FROM item", "cmp_method": "bird"}
CHAT_TEMPLATE = "<user>{{ messages[0]['content'] }}{% if add_generation_prompt %}<answer>{% endif %}"


@pytest.fixture(scope="session")
def tokenizer():
    tokens = ["<pad>", END, "<unk>", "<user>", "<answer>", *WORDS, *ANSWERS]
    words = Tokenizer(models.WordLevel({token: index for index, token in enumerate(tokens)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.decoder = decoders.WordPiece(cleanup=False)
    return PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="<pad>",
        eos_token=END,
        unk_token="<unk>",
        additional_special_tokens=["<user>", "<answer>"],
        chat_template=CHAT_TEMPLATE,
    )


@pytest.fixture(scope="session")
def model_folder(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("answer_model")
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=64,
        initializer_range=0.02,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def builder(tokenizer):
    return create_continuous_token_builder(tokenizer, hf_model_type="llama")


def shop_row(id: int, /, **changes) -> dict:
    """A row in the paper's format, asking for the names of the shop's items in one of five wordings."""
    words = [WORDS[(id + shift) % len(WORDS)] for shift in range(3)]
    return {
        "data_source": "sql",
        "prompt": [{"role": "user", "content": " ".join(words)}],
        "reward_model": {"style": "rule", "ground_truth": TRUTH},
        "id": id,
        "extra_info": {"index": id, "split": "train"},
    } | changes


@pytest.fixture(scope="session")
def make_row():
    return shop_row


@pytest.fixture(scope="session")
def write_parquet():
    def write(path, *rows):
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
        return path

    return write


@pytest.fixture(scope="session")
def train_parquet(tmp_path_factory, write_parquet):
    """Six prompts with ids 10, 11, ... 15."""
    path = tmp_path_factory.mktemp("data") / "train.parquet"
    return write_parquet(path, *(shop_row(10 + i) for i in range(6)))
