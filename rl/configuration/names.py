"""Names of folders and variables, and this machine's devices, also for programs that compose no configuration."""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from rl.common.errors import UserError

# The programs that Hydra configures.
MAIN, PRESAMPLE, EVALUATE = "verl.dph.main", "verl.dph.presample", "verl.dph.evaluate"
CHECKOUT = Path(__file__).resolve().parents[2]
# At or below this temperature engines take the likeliest token (vLLM, verl/dph/hf_rollout).
GREEDY_TEMPERATURE = 1e-5
_DEVICE_FILES = Path("/dev")
_SHOWN = 3  # names in one sentence
# What Hydra takes for a text without quotes.
_PLAIN = re.compile(r"[\w/.+:%@*?$|\\ -]*", re.ASCII)
# The files that the split writes: prompts of D_pef and of D_exp.
CORRECT_NAME, WRONG_NAME = "train_correct.parquet", "train_wrong.parquet"

# The paper's names of folders and projects, by model.
_PAPER_FOLDERS = {"llama-3.1-8b-instruct": "llama3.1-8b"}
_PAPER_GROUPS = {"llama-3.1-8b-instruct": "llama", "omnisql-32b": "omnisql", "qwen2.5-math-7b": "qwen"}


def model_name(model: str) -> str:
    """The model's name in the names of its data folders."""
    name = _last_part(model)
    return _PAPER_FOLDERS.get(name, name)


def group(model: str, task: str) -> str:
    """The name of the folder and of the project of a model's runs."""
    return f"{_PAPER_GROUPS.get(_last_part(model), model_name(model))}-{task}"


def _last_part(model: str) -> str:
    return str(model).rstrip("/").rpartition("/")[2].lower()


def override_value(path: object) -> str:
    """A path as the value of an override, in quotes where Hydra would read something else, as in /home/müller."""
    return str(path) if _PLAIN.fullmatch(str(path)) else quoted(path)


def quoted(path: object) -> str:
    """A path in Hydra's quotes."""
    return "'{}'".format(str(path).replace("'", "\\'"))


def verl_folder() -> Path:
    """The folder of the installed verl, which must be there (a checkout's own verl/ is a namespace package)."""
    verl = find_spec("verl")
    if verl is None or verl.origin is None:
        raise UserError(
            f"{sys.executable} has no verl: activate the environment (make install, then . .venv/bin/activate)."
        )
    return Path(verl.origin).parent


def python() -> str:
    """The interpreter that runs the programs of a run."""
    return os.environ.get("PYTHON") or sys.executable


def has_gpu(files: Path = _DEVICE_FILES) -> bool:
    """Whether this machine has an NVIDIA GPU (dxg is WSL 2's) that CUDA_VISIBLE_DEVICES does not hide.

    Args:
        files: the folder of the machine's devices.
    """
    if os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1"):
        return False
    return any(files.glob("nvidia[0-9]*")) or (files / "dxg").exists()


def joins_ray() -> bool:
    """Whether the run joins a running Ray, whose GPUs may be on other machines."""
    return bool(os.environ.get("RAY_ADDRESS"))


def has_bf16() -> bool:
    """Whether this machine's CPU multiplies matrices in bfloat16 (x86-64: AVX-512 or AMX)."""
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return bool(flags and {"avx512_bf16", "amx_bf16"} & {*flags[1].split()})


def named_device(words: Iterable[str]) -> str:
    """The device that the last override `device=` among a command's words names, else DEVICE; "" if neither does."""
    named = [word.removeprefix("device=") for word in words if word.startswith("device=")]
    return named[-1] if named else os.environ.get("DEVICE", "")


def device_of(words: Iterable[str]) -> str:
    """The file of verl/dph/config/device for a run with these words: the named one, else the CPU's if this machine has
    no NVIDIA GPU and the run joins no Ray."""
    return named_device(words) or ("cuda" if has_gpu() or joins_ray() else "cpu")


def is_cpu(device: str) -> bool:
    """Whether a file of verl/dph/config/device is for the CPU."""
    return device.startswith("cpu")


def devices(device: str, files: Path = _DEVICE_FILES) -> int:
    """How many processes train on this machine.

    Args:
        device: a file of verl/dph/config/device.
        files: the folder of the machine's devices.

    Returns:
        One per visible GPU, or one on the CPU; one on WSL 2, which has no file for each GPU; 8 if DEVICE=cuda asks for
        GPUs that this machine does not have.
    """
    if is_cpu(device):
        return 1
    if visible := os.environ.get("CUDA_VISIBLE_DEVICES"):
        return len(visible.split(","))
    return len(list(files.glob("nvidia[0-9]*"))) or (1 if (files / "dxg").exists() else 8)


def hint(word: str, known: Sequence[str], listed: str, before: str = "") -> str:
    """Which known word was meant, after the words `before` it, or else `listed`, the command that lists them all."""
    near = get_close_matches(word, known, 1)
    return f"did you mean '{before}{near[0]}'?" if near else f"see {listed}."


def no_setting(key: str, names: Sequence[str]) -> str:
    """The sentence for an unknown name, with the settings that may be meant."""
    by_end = {name.split(".")[-1]: name for name in names}
    meant = [name for name in names if name.endswith(f".{key}")] or get_close_matches(key, names)
    meant = meant or [by_end[end] for end in get_close_matches(key.split(".")[-1], by_end)]
    hint = f"did you mean {' or '.join(meant[:_SHOWN])}?" if meant else "docs/reference/settings.md lists them."
    return f"{key} is not a setting: {hint}"
