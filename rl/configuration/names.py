"""What experiments share with programs that compose nothing: names of folders, this machine, variables' names."""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from rl.common.errors import UserError

CHECKOUT = Path(__file__).resolve().parents[2]
_AS_NEAR = 0.85
# What the split writes: D_pef's prompts and D_exp's.
CORRECT_NAME, WRONG_NAME = "train_correct.parquet", "train_wrong.parquet"
# How a file of CONFIG_DIR reads an environment variable, as the whole value of a key (variables.py).
READS_VARIABLE = re.compile(r"\$\{(?:text|value|files|files_or_none):([A-Z][A-Z_]*),")

# The paper's names of folders and projects, by model.
_PAPER_FOLDERS = {"llama-3.1-8b-instruct": "llama3.1-8b"}
_PAPER_GROUPS = {"llama-3.1-8b-instruct": "llama", "omnisql-32b": "omnisql", "qwen2.5-math-7b": "qwen"}


def model_name(model: str) -> str:
    """What the folders of a model's data are named after."""
    name = _last_part(model)
    return _PAPER_FOLDERS.get(name, name)


def group(model: str, task: str) -> str:
    """What the folder of a model's runs and its project are named after."""
    return f"{_PAPER_GROUPS.get(_last_part(model), model_name(model))}-{task}"


def _last_part(model: str) -> str:
    return str(model).rstrip("/").rpartition("/")[2].lower()


def verl_folder() -> Path:
    """The folder of the installed verl.

    Raises:
        UserError: there is none; a checkout's own verl/ is a namespace.
    """
    verl = find_spec("verl")
    if verl is None or verl.origin is None:
        raise UserError(
            f"{sys.executable} has no verl: activate the environment (make install, then . .venv/bin/activate)."
        )
    return Path(verl.origin).parent


def has_gpu() -> bool:
    """Whether this machine has an NVIDIA GPU (/dev/dxg: on WSL 2)."""
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists()


def devices(device: str) -> int:
    """How many processes train on this machine.

    Args:
        device: a file of verl/dph/config/device.

    Returns:
        One per visible GPU, or one on the CPU; 8 if the GPUs that DEVICE=cuda asks for are elsewhere.
    """
    if device.startswith("cpu"):
        return 1
    if visible := os.environ.get("CUDA_VISIBLE_DEVICES"):
        return len(visible.split(","))
    return len(list(Path("/dev").glob("nvidia[0-9]*"))) or 8


def misspelt(environment: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """A sentence for each variable that is nearly the name of a setting."""
    known = set(known)
    for name in sorted(set(environment) - known):
        if near := get_close_matches(name, known, 1, _AS_NEAR):
            yield f"{name} is no setting; did you mean {near[0]}?"
