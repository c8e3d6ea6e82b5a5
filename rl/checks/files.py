"""The files that a run names: data, the D_pef store, the model's folder."""

import os
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from rl.common.errors import UserError
from rl.common.model_files import check_hub
from rl.configuration.names import CORRECT_NAME, EVALUATE, MAIN, PRESAMPLE, WRONG_NAME

_PUBLISHED = "the commands of docs/howto/data.md write it"
# How to get the file of a setting.
_ORIGIN = {
    "data.train_files": f"{_PUBLISHED}, and dph split D_exp; set TRAIN_FILE or DATA_DIR",
    "data.val_files": f"{_PUBLISHED}; set VAL_FILES to it; VAL_FILES= trains without validation",
    "data.sft_files": f"run dph split after dph presample, which writes {CORRECT_NAME}",
    "data.sft_wrong_files": f"run dph split after dph presample, which writes {WRONG_NAME}",
    "data.sft_samples": "run dph presample, which writes it",
    "data.sft_responses": "give a parquet or JSON lines of responses (docs/howto/train.md)",
    "data.sft_pt": "run dph store, which writes it (from data.sft_responses=FILE for CHORD); set SFT_PT to it",
}


def files_of(setting: str | Sequence[str] | None) -> list[Path]:
    """The paths of a setting that names one file, several or none; `~` is expanded.

    The paper's README writes data.sft_pt=None, which Hydra reads as a string.
    """
    named = [] if setting in (None, "None") else [setting] if isinstance(setting, str) else setting
    return [Path(file).expanduser() for file in named or []]


def uses_samples(data: DictConfig) -> bool:
    """Whether a store's rows are samples of the pre-sampling."""
    return not data.sft_responses and (data.sft_coverage != "mastered" or data.sft_responses_per_prompt != 1)


def asks_scorer(config: DictConfig, program: str) -> bool:
    """Whether a program has responses judged: no store of pre-sampled responses, and no prompts without answers."""
    if program == MAIN and config.actor_rollout_ref.actor.generate_sft:
        return not uses_samples(config.data)
    if program != PRESAMPLE:
        return True
    import pyarrow.parquet as pq

    try:
        return all("reward_model" in pq.read_schema(file).names for file in files_of(config.data.train_files))
    except (OSError, ValueError):
        return True  # the program says what is wrong with the file


def prompt_settings(data: DictConfig) -> list[str]:
    """Which settings name the prompts that a store is written for."""
    all_prompts = data.sft_responses or data.sft_coverage == "solved"
    return ["sft_files", "sft_wrong_files"] if all_prompts and data.sft_wrong_files else ["sft_files"]


def needed_files(config: DictConfig, program: str) -> list[str]:
    """The settings that name the files that a program reads; evaluation finds its own (rl/evaluation/splits.py).

    Raises:
        UserError: a setting that the program needs is not set.
    """
    if program == EVALUATE:
        return []
    needed, others = ["train_files"], []
    if program == MAIN and config.actor_rollout_ref.actor.generate_sft:
        needed = prompt_settings(config.data)
        if config.data.sft_responses:
            needed.append("sft_responses")
        elif uses_samples(config.data):
            needed.append("sft_samples")
        else:  # the prompts that fail the refinement join it
            needed.append("sft_wrong_files")
    elif program == MAIN:
        others = ["data.val_files"]
        if config.actor_rollout_ref.actor.sft_loss_mode != "none":
            others += ["data.sft_files", "data.sft_pt", "data.sft_anchor_pt"]
    for name in needed:
        check_set(config, f"data.{name}")
    return [*(f"data.{name}" for name in needed), *others]


def check_set(config: DictConfig, key: str) -> None:
    """Reject a setting that names no file."""
    if not files_of(OmegaConf.select(config, key)):
        raise UserError(f"{key} is not set, and this run needs it: name the file.")


def check_file(key: str, path: Path) -> bool:
    """Reject a folder, and a file that does not exist; a file on another file system (hdfs://) is not checked.

    Returns:
        Whether it was checked.
    """
    if ":/" in str(path):  # pathlib makes one slash of two
        return False
    if not os.path.isfile(path):  # Path.is_file raises where the user may not look
        if os.path.isdir(path):
            raise UserError(f"{key}={path} is a folder: name a file.")
        raise UserError(f"{key}={path} does not exist: {_ORIGIN.get(key, 'correct the path')}.")
    return True


def check_model(key: str, model: str, *, ask_hub: bool = True) -> None:
    """Reject a folder without a model, and a name that the Hugging Face Hub does not have.

    A name a/b is a path if the folder a is here. For a model that is neither here nor in the Hub's cache, the Hub is
    asked once; transformers would retry for 30 s.

    Args:
        key: the setting that names it.
        ask_hub: otherwise a name on the Hub is not checked.
    """
    looks_local = model.startswith(("/", ".", "~")) or model.count("/") > 1 or os.path.isdir(model.split("/")[0])
    if looks_local and "://" not in model:
        folder = Path(model).expanduser()
        if not os.path.isfile(folder / "config.json"):
            missing = "" if os.path.isdir(folder) else f" (the model folder {model} does not exist)"
            raise UserError(
                f"{key}={model} holds no config.json{missing}: give the folder of a Hugging Face model, or a name on "
                f"the Hub, in {key}."
            )
    elif ask_hub:
        check_hub(model, key)
