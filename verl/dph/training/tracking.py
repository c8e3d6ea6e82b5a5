"""Environment variables of verl's loggers: their folders, which verl's Tracking does not pass on."""

import os
import time
from pathlib import Path

from omegaconf import DictConfig

from rl.data.training_run import LOGS


def set_environment(config: DictConfig) -> None:
    """Set the loggers' folders, unless they are set.

    A resumed run logs to a new file, because verl's file logger truncates the file that it opens. Call this before
    verl's Tracking is created.

    Args:
        config: verl's trainer settings; read are trainer.logger and trainer.default_local_dir.
    """
    run = Path(config.trainer.default_local_dir).absolute()
    os.environ.setdefault("VERL_FILE_LOGGER_PATH", str(_next_log(run / LOGS)))
    if "file" in config.trainer.logger:  # verl makes no folder for a path
        Path(os.environ["VERL_FILE_LOGGER_PATH"]).parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("TENSORBOARD_DIR", str(run / "tensorboard"))
    os.environ.setdefault("WANDB_DIR", str(run))
    os.environ.setdefault("SWANLAB_LOG_DIR", str(run / "swanlab"))
    if os.environ.get("SWANLAB_MODE") == "offline":
        os.environ.pop("SWANLAB_API_KEY", None)  # verl would log in with it, over the network
    os.environ.setdefault("MLFLOW_TRACKING_URI", f"sqlite:///{run / 'mlruns.db'}")


def _next_log(folder: Path) -> Path:
    """A file whose name, a time, comes after the others': readers take the files in this order (training_log.py)."""
    last = max(folder.glob("*.jsonl"), default=folder)
    log = folder / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.jsonl"
    return log if log > last else last.with_name(f"{last.stem}_.jsonl")  # "_" sorts after "."
