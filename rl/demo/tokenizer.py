"""The tiny model's tokenizer: one token per word, and a chat template that passes only the question to the model.

The model knows the four schemas by heart, so its template keeps only the line after "Question:", which starts with the
schema's name. A prompt then has about 20 tokens instead of several hundred, so that two cores can train the model.
Another model in its place reads the whole prompt through its own template.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rl.demo import questions

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# A turn is START, its text, END; the generation prompt is START.
PAD, START, END, UNKNOWN = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|unknown|>"
NEWLINE = "\n"
QUESTION_HEADING = "Question:"  # of rl/data/prepare/prompt_template.py
FENCE_OPEN, FENCE_CLOSE = "```sql\n", "\n```"

CHAT_TEMPLATE = (
    "{#- The demo's template (rl/demo/tokenizer.py): of a user's message only the question's line is kept. -#}"
    "{%- for message in messages -%}"
    "{{- '" + START + "' -}}"
    "{%- if message['role'] == 'user' -%}"
    "{{- message['content'].split('" + QUESTION_HEADING + "\\n')[-1].split('\\n')[0] -}}"
    "{%- else -%}"
    "{{- message['content'] -}}"
    "{%- endif -%}"
    "{{- '" + END + "' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '" + START + "' -}}{%- endif -%}"
)


def response_text(solution: str) -> str:
    """A response as the model writes it: the SQL in a fenced block."""
    return f"{FENCE_OPEN}{solution}{FENCE_CLOSE}"


def vocabulary(words: Iterable[str] | None = None) -> dict[str, int]:
    """{token: id}: special tokens, newline and fences, then `words` (default: the demo's)."""
    if words is None:
        words = questions.vocabulary()
    tokens = [PAD, START, END, UNKNOWN, NEWLINE, FENCE_OPEN, FENCE_CLOSE, *sorted(words)]
    return {token: index for index, token in enumerate(tokens)}


def build_tokenizer(words: Iterable[str] | None = None) -> "PreTrainedTokenizerFast":
    """Build the tokenizer. Decoding puts one blank between words and none beside a newline.

    Args:
        words: as in `vocabulary`.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel(vocabulary(words), unk_token=UNKNOWN))
    # A newline before an opening fence closes nothing.
    fences_and_newlines = Regex(f"{FENCE_OPEN}|{NEWLINE}(?={FENCE_OPEN})|{FENCE_CLOSE}|{NEWLINE}")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(fences_and_newlines, "isolated"), pre_tokenizers.Split(" ", "removed")]
    )
    # WordPiece joins words by blanks, because none of our words starts with its continuation prefix.
    tokenizer.decoder = decoders.Sequence(
        [decoders.WordPiece(cleanup=False), decoders.Fuse(), decoders.Replace(Regex(" ?\n ?"), "\n")]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=START,
        eos_token=END,
        unk_token=UNKNOWN,
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )
