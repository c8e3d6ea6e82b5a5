"""verl's agent loop gives the demo's model the tokens of its chat template."""

from transformers import LlamaConfig
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

from rl.demo.tokenizer import build_tokenizer


def test_initial_tokens_are_those_of_the_template(tmp_path):
    tokenizer = build_tokenizer()
    LlamaConfig().save_pretrained(tmp_path)
    question = "Question:\nschool : list height of pupils lacking a exam where mark at most 7 ?"
    messages = [{"role": "user", "content": question}]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
    builder = create_continuous_token_builder(tokenizer, hf_model_type="llama")
    assert ids == builder.build_initial_tokens(messages) and len(ids) == 18
