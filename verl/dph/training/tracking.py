"""Environment variables of verl's loggers: folders, offline mode and tags, which verl's Tracking does not pass on."""

import logging
import netrc
import os
import time
from contextlib import suppress
from pathlib import Path

from omegaconf import DictConfig
from requests.utils import get_netrc_auth

from rl.data.training_run import LOGS

logger = logging.getLogger(__name__)


def set_environment(config: DictConfig) -> None:
    """Set the loggers' folders, offline mode for a service without a key, and the run's tags, unless they are set.

    A resumed run logs to a new file, because verl's file logger truncates the file that it opens. Call this before
    verl's Tracking is created.

    Args:
        config: verl's trainer settings; read are trainer.logger, trainer.default_local_dir and trainer.tags.
    """
    run = Path(config.trainer.default_local_dir).absolute()
    os.environ.setdefault("VERL_FILE_LOGGER_PATH", str(_next_log(run / LOGS)))
    if "file" in config.trainer.logger:  # verl makes no folder for a path
        Path(os.environ["VERL_FILE_LOGGER_PATH"]).parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("TENSORBOARD_DIR", str(run / "tensorboard"))
    os.environ.setdefault("WANDB_DIR", str(run))
    os.environ.setdefault("SWANLAB_LOG_DIR", str(run / "swanlab"))
    os.environ.setdefault("MLFLOW_TRACKING_URI", f"sqlite:///{run / 'mlruns.db'}")
    for name, logged_in in {"wandb": _logged_in_to_wandb, "swanlab": _logged_in_to_swanlab}.items():
        if name not in config.trainer.logger:
            continue
        variables = {kind: f"{name.upper()}_{kind}" for kind in ("API_KEY", "MODE", "TAGS")}
        if not (os.environ.get(variables["API_KEY"]) or os.environ.get(variables["MODE"]) or logged_in()):
            os.environ[variables["MODE"]] = "offline"
            logger.warning("%s has no key (%s): it logs offline, for `%s sync`.", name, variables["API_KEY"], name)
        if config.trainer.tags:
            os.environ.setdefault(variables["TAGS"], ",".join(map(str, config.trainer.tags)))


def _next_log(folder: Path) -> Path:
    """A file whose name, a time, comes after the others': readers take the files in this order (training_log.py)."""
    last = max(folder.glob("*.jsonl"), default=folder)
    log = folder / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.jsonl"
    return log if log > last else last.with_name(f"{last.stem}_.jsonl")  # "_" sorts after "."


def _logged_in_to_wandb() -> bool:
    """Whether `wandb login` left a key for the server."""
    return get_netrc_auth(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")) is not None


def _logged_in_to_swanlab() -> bool:
    """Whether `swanlab login` left a key, for the project or the user."""
    for file in (".swanlab/.netrc", "~/.swanlab/.netrc"):
        with suppress(OSError, netrc.NetrcParseError):
            if netrc.netrc(Path(file).expanduser()).hosts:
                return True
    return False
