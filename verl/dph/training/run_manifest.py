"""Provenance of a run, written beside every checkpoint: code, packages, data, store, model, settings, machines."""

import importlib.metadata
import json
import os
import platform
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rl.checks.files import files_of
from rl.common import atomic_write
from rl.common.fingerprint import file_sha256, model_hashes
from rl.common.git_state import git_state
from rl.data.training_run import MANIFEST, MANIFEST_FORMAT
from verl.dph.pef.store import Store

_DATA_KEYS = ("train_files", "val_files", "sft_files", "sft_pt", "sft_anchor_pt")


class Manifest:
    """The manifest of one run. What cannot change during the run is determined once.

    Args:
        config: verl's trainer settings, resolved.
    """

    def __init__(self, config: DictConfig):
        self._config = config

    def start(self) -> None:
        """Hash the model and data in a thread before the first `write`: a 32B model has 65 GB to read."""
        _ = self._hashes

    def write(self, folder: str | os.PathLike, *, step: int, resources: dict[str, float]) -> None:
        """Write folder/manifest.json atomically, once all hashes are there.

        Args:
            step: of the checkpoint in `folder`.
            resources: Ray's, over all nodes.

        Raises:
            UserError: a file of the model or data could not be hashed; nothing is written.
        """
        content = self._of_run | {"step": step, "written": datetime.now(UTC).isoformat(), "ray_resources": resources}
        path = Path(folder) / MANIFEST
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write.write_text(path, json.dumps(content, indent=2, sort_keys=True) + "\n")

    @cached_property
    def _hashes(self) -> Future[dict[str, Any]]:
        thread = ThreadPoolExecutor(1, "manifest")
        hashes = thread.submit(_hashes_of, self._config)
        thread.shutdown(wait=False)
        return hashes

    @cached_property
    def _of_run(self) -> dict[str, Any]:
        return {
            "format": MANIFEST_FORMAT,
            "git": git_state(Path(__file__).parent),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "packages": packages(),
            "settings": OmegaConf.to_container(self._config, resolve=True),
        } | self._hashes.result()


def packages() -> dict[str, str]:
    """Versions of all installed distributions by name."""
    found = ((part.metadata["Name"], part.version) for part in importlib.metadata.distributions())
    return {name: version for name, version in sorted(found, key=str) if name}


def _hashes_of(config: DictConfig) -> dict[str, Any]:
    """The manifest's "model", "data" and "store", the store's own `meta`.

    The settings that a store is written with, such as data.sft_coverage, need not be those of a run that reads it.
    """
    stores = files_of(config.data.get("sft_pt"))
    model = config.actor_rollout_ref.model
    return {
        "model": {"path": str(model.path)} | model_hashes(model.path, model.tokenizer_path),
        "data": {key: {str(path): file_sha256(path) for path in files_of(config.data.get(key))} for key in _DATA_KEYS},
        "store": Store.load(str(stores[0])).meta if stores else None,
    }
