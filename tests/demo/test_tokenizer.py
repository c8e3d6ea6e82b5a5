"""Text and tokens: nothing is unknown, nothing is lost, and the template hands on the question only."""

import random

import pytest
from transformers import AutoTokenizer, LlamaConfig

from rl.data.prepare.prompt_template import sql_prompt
from rl.demo.questions import FAMILIES, SCHEMAS, STYLE_NAMES, Mix, announced_solution, draw_question
from rl.demo.tokenizer import FENCE_CLOSE, FENCE_OPEN, START, build_tokenizer, response_text, vocabulary

ALL_EQUAL = Mix((1.0,) * len(FAMILIES), zipf_exponent=0.0)
TOKENIZER = build_tokenizer()
MOST_PROMPT_TOKENS = 40
MOST_RESPONSE_TOKENS = 48


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """The tokenizer as everybody else gets it: from a folder with a model's configuration, by AutoTokenizer."""
    folder = tmp_path_factory.mktemp("tokenizer")
    TOKENIZER.save_pretrained(folder)
    LlamaConfig().save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder, local_files_only=True)


def messages(question: str) -> list[dict]:
    return [{"role": "user", "content": sql_prompt("CREATE TABLE t (id INTEGER);", question, "")}]


def encode(tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False)


def test_questions_and_solutions_survive_and_fit(loaded):
    rng = random.Random(1)
    for _ in range(300):
        question = draw_question(rng, SCHEMAS, ALL_EQUAL)
        prompt = loaded.apply_chat_template(messages(question.text), add_generation_prompt=True, tokenize=False)
        assert len(encode(loaded, prompt)) == len(question.text.split()) + 3 <= MOST_PROMPT_TOKENS
        for text in (question.text, *(response_text(announced_solution(question, style)) for style in STYLE_NAMES)):
            ids = encode(loaded, text)
            assert loaded.unk_token_id not in ids
            assert loaded.decode([*ids, loaded.eos_token_id], skip_special_tokens=True) == text
            assert len(ids) + 1 <= MOST_RESPONSE_TOKENS


def test_the_template_hands_on_the_question_only(loaded):
    question = "shop : show name of customers having any order where total above 40 ?"
    text = loaded.apply_chat_template(messages(question), add_generation_prompt=True, tokenize=False)
    assert text == f"<|im_start|>{question}<|im_end|><|im_start|>"
    conversation = [*messages(question), {"role": "assistant", "content": "```sql\nSELECT\n```"}]
    full = loaded.apply_chat_template(conversation, tokenize=False)
    assert full == text + "```sql\nSELECT\n```<|im_end|>"

    ids = loaded.apply_chat_template(messages(question), add_generation_prompt=True, tokenize=True, return_dict=False)
    assert ids == encode(loaded, text) and loaded.convert_ids_to_tokens(ids)[-2:] == ["<|im_end|>", START]


def test_special_tokens_and_fences(loaded):
    assert sorted(vocabulary().values()) == list(range(len(loaded)))
    special = (loaded.pad_token_id, loaded.bos_token_id, loaded.eos_token_id, loaded.unk_token_id)
    assert special == (0, 1, 2, 3)
    ids = encode(loaded, "```sql\n/*IN*/ SELECT customers.name\n```")
    assert loaded.convert_ids_to_tokens(ids) == [FENCE_OPEN, "/*IN*/", "SELECT", "customers.name", FENCE_CLOSE]
