"""Provenance of a run, written beside every checkpoint: code, packages, data, model, settings, machines."""

import importlib.metadata
import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rl.common import atomic_write
from rl.common.fingerprint import file_sha256, model_hash, tokenizer_hash
from verl.dph.training.config import files_of

FORMAT = "dph-manifest/1"
FILE = "manifest.json"

_DATA_KEYS = ("train_files", "val_files", "sft_files", "sft_pt")


class Manifest:
    """The manifest of one run; what does not change during the run is determined once.

    Args:
        config: verl's trainer settings, resolved.
    """

    def __init__(self, config: DictConfig):
        self._config = config

    def write(self, folder: str | os.PathLike, *, step: int, resources: dict[str, float]) -> None:
        """Write folder/manifest.json atomically.

        Args:
            step: of the checkpoint in `folder`.
            resources: Ray's, over all nodes.
        """
        content = self._of_run | {"step": step, "written": datetime.now(UTC).isoformat(), "ray_resources": resources}
        path = Path(folder) / FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write.write_text(path, json.dumps(content, indent=2, sort_keys=True) + "\n")

    @cached_property
    def _of_run(self) -> dict[str, Any]:
        model, data = self._config.actor_rollout_ref.model, self._config.data
        return {
            "format": FORMAT,
            "git": git_state(Path(__file__).parent),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "packages": packages(),
            "model": {
                "path": str(model.path),
                "model_hash": model_hash(model.path),
                "tokenizer_hash": tokenizer_hash(model.tokenizer_path or model.path),
            },
            "data": {key: _hashes(data.get(key)) for key in _DATA_KEYS},
            "settings": OmegaConf.to_container(self._config, resolve=True),
        }


def git_state(folder: Path) -> dict[str, Any] | None:
    """Revision of the checkout that `folder` belongs to, and whether tracked files differ from it; None without one."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(folder), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        # An installed copy may lie inside a checkout of something else.
        git("ls-files", "--error-unmatch", str(folder))
        return {
            "revision": git("rev-parse", "HEAD"),
            "changed": bool(git("status", "--porcelain", "--untracked-files=no")),
        }
    except (OSError, subprocess.CalledProcessError):
        return None


def packages() -> dict[str, str]:
    """Versions of all installed distributions by name."""
    found = ((part.metadata["Name"], part.version) for part in importlib.metadata.distributions())
    return {name: version for name, version in sorted(found, key=str) if name}


def _hashes(files: Any) -> dict[str, str]:
    """sha256 by path."""
    return {str(path): file_sha256(path) for path in files_of(files)}
