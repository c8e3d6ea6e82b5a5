"""Tokenizers of local model folders."""

from pathlib import Path
from typing import TYPE_CHECKING

from rl.common.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def load_tokenizer(folder: Path) -> "PreTrainedTokenizerBase":
    """The tokenizer that the option --tokenizer names.

    Raises:
        UserError: there is no such folder, or it holds no tokenizer.
    """
    if not folder.is_dir():
        raise UserError(f"--tokenizer {folder} is no folder: give a local model or tokenizer folder.")
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # a damaged tokenizer.json is a bare Exception of the tokenizers library
        raise UserError(
            f"--tokenizer {folder} holds no tokenizer that can be loaded ({type(error).__name__}): give a local model "
            "or tokenizer folder."
        ) from error
