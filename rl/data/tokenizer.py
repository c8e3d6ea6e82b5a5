"""Tokenizers of local model folders, and the token budget of a prompt."""

from pathlib import Path
from typing import TYPE_CHECKING

from rl.common.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# With the tokenizers of Llama 3 and Qwen, SQL schemas have 2.5 to 4 characters per token, so this estimates high.
CHARACTERS_PER_TOKEN = 2.5


def load_tokenizer(model: Path) -> "PreTrainedTokenizerBase":
    """The tokenizer that the option --tokenizer names: a folder, or a name on the Hugging Face Hub."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(str(model), local_files_only=model.is_dir())
    except Exception as error:  # a damaged tokenizer.json is a bare Exception of the tokenizers library
        raise UserError(
            f"--tokenizer {model} holds no tokenizer that can be loaded ({type(error).__name__}): give a model folder "
            "or a name on the Hugging Face Hub."
        ) from error


class Budget:
    """A limit on the tokens of a chat with one message of the user.

    Without a tokenizer the tokens are estimated from the characters (CHARACTERS_PER_TOKEN).

    Args:
        tokenizer: its folder, or its name on the Hugging Face Hub.
    """

    def __init__(self, max_tokens: int, tokenizer: Path | None):
        if max_tokens < 1:
            raise UserError(f"--max-prompt-tokens is {max_tokens}: give a number of at least 1.")
        self.max_tokens = max_tokens
        self._tokenizer = load_tokenizer(tokenizer) if tokenizer is not None else None
        self._template_tokens = _count(self._tokenizer, "") if self._tokenizer is not None else 0

    def fits(self, content: str) -> bool:
        if self._tokenizer is None:
            return len(content) <= self.max_tokens * CHARACTERS_PER_TOKEN
        # A token of a byte-level or SentencePiece tokenizer has at least one byte, so most prompts need no counting.
        most = self._template_tokens + len(content.encode(errors="replace"))
        return most <= self.max_tokens or _count(self._tokenizer, content) <= self.max_tokens


def _count(tokenizer: "PreTrainedTokenizerBase", content: str) -> int:
    if tokenizer.chat_template is None:
        return len(tokenizer.encode(content))
    messages = [{"role": "user", "content": content}]
    return len(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))
